package child

import (
	"os"
	"os/exec"
	"syscall"
)

func detach(cmd *exec.Cmd, stop os.Signal) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	cmd.SysProcAttr.Pdeathsig, _ = stop.(syscall.Signal)
}
