package port

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// take listens on a port until it is given back.
func take(t *testing.T, port int) (back func()) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return func() { _ = l.Close() }
}

func choose(t *testing.T, file string, wanted int) int {
	t.Helper()
	chosen, err := Choose(file, wanted)
	if err != nil {
		t.Fatal(err)
	}
	return chosen
}

func TestAPortThatNobodyWantedIsKeptUntilSomebodyElseHasIt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "port")
	first := choose(t, file, 0)
	if again := choose(t, file, 0); again != first {
		t.Errorf("kept %d, then chose %d", first, again)
	}
	take(t, first)
	other := choose(t, file, 0)
	if other == first {
		t.Errorf("chose %d, which is taken", other)
	}
	if again := choose(t, file, 0); again != other {
		t.Errorf("the new choice %d was not kept, got %d", other, again)
	}
}

func TestAMovedPortComesBackAsSoonAsTheWantedOneIsFree(t *testing.T) {
	file := filepath.Join(t.TempDir(), "port")
	wanted, err := Free()
	if err != nil {
		t.Fatal(err)
	}
	back := take(t, wanted)
	moved := choose(t, file, wanted)
	if moved == wanted {
		t.Fatalf("chose %d, which is taken", moved)
	}
	if again := choose(t, file, wanted); again != moved {
		t.Errorf("moved to %d, then to %d, though that was free", moved, again)
	}
	back()
	if now := choose(t, file, wanted); now != wanted {
		t.Errorf("stays at %d, though %d is free", now, wanted)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a port that is not used any more is still kept")
	}
}
