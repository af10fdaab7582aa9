//go:build !unix

package child

import (
	"os"
	"os/exec"
)

func detach(*exec.Cmd, os.Signal) {}
