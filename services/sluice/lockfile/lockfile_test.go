package lockfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestATakenLockIsRefusedWithItsHolderAndGivenWhenFree(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := Take(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	soon, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := Take(soon, path); !errors.Is(err, ErrTaken) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("taken twice, or the holder is not named: %v", err)
	}
	waiting := make(chan error)
	go func() {
		second, err := Take(t.Context(), path)
		if err == nil {
			err = second.Close()
		}
		waiting <- err
	}()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-waiting; err != nil {
		t.Errorf("free, but not given: %v", err)
	}
}
