//go:build unix && !linux

package child

import (
	"os"
	"os/exec"
	"syscall"
)

func detach(cmd *exec.Cmd, _ os.Signal) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
}
