package devdb

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// sharedTemp survives restarts of the machine and lets every account pass.
const sharedTemp = "/var/tmp"

// place makes the directory the server lives in: dir itself, or, where the
// account cannot go there (a checkout below root's home), one in temp. If dir is
// new, so is the other: somebody deleted the data directory to begin anew.
func place(dir string, acc *account, temp string) (base string, err error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	_, missing := os.Stat(abs)
	if err := os.MkdirAll(abs, 0o700); err != nil {
		return "", fmt.Errorf("make the database's directory: %w", err)
	}
	if acc == nil {
		return abs, nil
	}
	if reachable(filepath.Dir(abs)) {
		return abs, acc.own(abs)
	}
	base = filepath.Join(temp, fmt.Sprintf("sluice-%x", sha256.Sum256([]byte(abs)))[:23])
	err = os.Mkdir(base, 0o700)
	if errors.Is(err, fs.ErrExist) {
		if err := acc.owns(base); err != nil || missing == nil {
			return base, err
		}
		if err := os.RemoveAll(base); err != nil {
			return "", err
		}
		err = os.Mkdir(base, 0o700)
	}
	if err != nil {
		return "", err
	}
	return base, acc.own(base)
}

// reachable says whether an account without rights of its own may pass through
// dir and everything above it.
func reachable(dir string) bool {
	for {
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm()&0o001 == 0 {
			return false
		}
		up := filepath.Dir(dir)
		if up == dir {
			return true
		}
		dir = up
	}
}
