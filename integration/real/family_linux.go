package real

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// attributes makes the kernel end the server when we die, however we die: a
// test binary that runs into its time limit cleans up nothing.
func attributes(user *syscall.Credential, onOurDeath syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: user, Pdeathsig: onOurDeath}
}

// signalFamily sends the signals, one round each, to a process and all that
// descend from it. Process groups do not do: each PostgreSQL backend makes its own.
func signalFamily(pid int, signals ...syscall.Signal) error {
	for _, signal := range signals {
		for _, member := range family(pid) {
			if err := syscall.Kill(member, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
				return err
			}
		}
		if signal == syscall.SIGSTOP {
			// One that was forked while we counted; a stopped parent forks no more.
			for _, member := range family(pid) {
				_ = syscall.Kill(member, signal) // Gone meanwhile is fine.
			}
		}
	}
	return nil
}

// family lists a process and its descendants, parents first.
func family(pid int) []int {
	children := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		stat, err := os.ReadFile(name)
		if err != nil {
			continue // It has ended since.
		}
		// "pid (name) state ppid": a name may hold spaces and parentheses.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		child, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if parent, err := strconv.Atoi(string(fields[1])); err == nil {
			children[parent] = append(children[parent], child)
		}
	}
	members := []int{pid}
	for i := 0; i < len(members); i++ {
		members = append(members, children[members[i]]...)
	}
	return members
}

// alive: it runs, or could. One that has ended and was not waited for holds nothing.
func alive(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	state := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])[0]
	return !bytes.Equal(state, []byte("Z")) && !bytes.Equal(state, []byte("X"))
}
