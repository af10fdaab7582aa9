package port

import (
	"net"
	"path/filepath"
	"strconv"
	"testing"
)

func TestAPortIsKeptUntilSomebodyElseHasIt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "port")
	first, err := Keep(file, 0)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Keep(file, 1); err != nil || again != first {
		t.Errorf("kept %d, then chose %d (%v)", first, again, err)
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(first)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	other, err := Keep(file, first)
	if err != nil || other == first {
		t.Errorf("chose %d, which is taken (%v)", other, err)
	}
	if again, err := Keep(file, 0); err != nil || again != other {
		t.Errorf("the new choice %d was not kept, got %d (%v)", other, again, err)
	}
}
