//go:build unix

package devdb

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhereTheAccountCannotGoTheDatabaseLivesElsewhereAndFollowsItsDirectory(t *testing.T) {
	closed, temp := filepath.Join(t.TempDir(), "closed"), t.TempDir()
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	acc := &account{name: "other", uid: uint32(os.Geteuid()), gid: uint32(os.Getegid())}
	dir := filepath.Join(closed, "data", "postgres")
	put := func() string {
		t.Helper()
		base, err := place(dir, acc, temp)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(base, temp) {
			t.Fatalf("placed in %s, where the account cannot go", base)
		}
		return filepath.Join(base, "kept")
	}
	kept := put()
	if err := os.WriteFile(kept, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if again := put(); again != kept {
		t.Errorf("placed in %s and then in %s", kept, again)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("data did not stay from run to run: %v", err)
	}
	if err := os.RemoveAll(filepath.Dir(dir)); err != nil {
		t.Fatal(err)
	}
	put()
	if _, err := os.Stat(kept); err == nil {
		t.Error("the data directory was deleted, its database was not")
	}
}

// In a directory that all may write, somebody could have been there first.
func TestAPlaceThatIsNotTheAccountsOwnIsRefused(t *testing.T) {
	closed, temp := filepath.Join(t.TempDir(), "closed"), t.TempDir()
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	acc := &account{uid: uint32(os.Geteuid()), gid: uint32(os.Getegid())}
	dir := filepath.Join(closed, "postgres")
	base, err := place(dir, acc, temp)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(base); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), base); err != nil {
		t.Fatal(err)
	}
	if _, err := place(dir, acc, temp); err == nil {
		t.Error("followed somebody else's link")
	}
}
