//go:build unix && !linux

package real

import "syscall"

// attributes: only Linux can end a child when its parent dies.
func attributes(user *syscall.Credential, _ syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: user}
}

// signalFamily reaches the process group. PostgreSQL's backends each have one
// of their own: for tests that kill or pause it, use Docker here.
func signalFamily(pid int, signals ...syscall.Signal) error {
	for _, signal := range signals {
		if err := syscall.Kill(-pid, signal); err != nil {
			return err
		}
	}
	return nil
}

// family is not known here, but for its first.
func family(pid int) []int { return []int{pid} }

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }
