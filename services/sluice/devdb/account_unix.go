//go:build unix

package devdb

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// account is whom the server runs as; nil is ourselves.
type account struct {
	name     string
	uid, gid uint32
}

// whom: PostgreSQL refuses to run as root, so root lends it another account.
func whom() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			continue
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			continue
		}
		return &account{name: name, uid: uint32(uid), gid: uint32(gid)}, nil
	}
	return nil, errors.New("PostgreSQL refuses to run as root, and this machine has neither a postgres nor a nobody account")
}

func (a *account) apply(cmd *exec.Cmd) {
	if a != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: a.uid, Gid: a.gid}}
	}
}

// own gives path to the account.
func (a *account) own(path string) error {
	if a == nil {
		return nil
	}
	return os.Chown(path, int(a.uid), int(a.gid))
}

// owns says whether path is the account's own directory and nobody else's: in a
// directory that all may write, somebody could have made it first.
func (a *account) owns(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || !info.IsDir() || (a != nil && st.Uid != a.uid) {
		return fmt.Errorf("%s exists and belongs to somebody else", path)
	}
	return nil
}

func alive(pid int) bool { return syscall.Kill(pid, 0) != syscall.ESRCH }
func interrupt(pid int)  { _ = syscall.Kill(pid, syscall.SIGINT) }
