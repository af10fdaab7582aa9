// Package port chooses ports on loopback.
package port

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
)

// Keep is the port written in file, so that what people copied stays true from
// run to run; if there is none, or somebody else has it now, another free one,
// which file then holds. preferred, if positive, is tried before any other.
func Keep(file string, preferred int) (int, error) {
	if text, err := os.ReadFile(file); err == nil {
		if kept, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && free(kept) {
			return kept, nil
		}
	}
	chosen := preferred
	if chosen == 0 || !free(chosen) {
		var err error
		if chosen, err = Free(); err != nil {
			return 0, err
		}
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
