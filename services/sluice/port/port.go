// Package port chooses ports on loopback.
package port

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
)

// Choose is the wanted port if nobody has it. Else, or if wanted is 0, it is the
// one that file holds from an earlier run, so that what people copied stays true,
// or another free one, which file then holds. While the wanted port is used there
// is no file: nothing stays moved for longer than it must.
func Choose(file string, wanted int) (int, error) {
	if wanted > 0 && free(wanted) {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, fmt.Errorf("forget a port that was moved: %w", err)
		}
		return wanted, nil
	}
	if text, err := os.ReadFile(file); err == nil {
		if kept, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && kept > 0 && free(kept) {
			return kept, nil
		}
	}
	chosen, err := Free()
	if err != nil {
		return 0, err
	}
	if err := os.WriteFile(file, []byte(strconv.Itoa(chosen)+"\n"), 0o600); err != nil {
		return 0, fmt.Errorf("keep a port: %w", err)
	}
	return chosen, nil
}

// Free is a port that nobody listens on at this moment.
func Free() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func free(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}
