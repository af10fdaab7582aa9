package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/pkg/archive"
)

func TestAnArchiveIsListedVerifiedAndPrinted(t *testing.T) {
	dir := t.TempDir()
	m, err := archive.Dir(dir).Write(t.Context(), archive.Partition{Table: "raw_bodies", Name: "raw_bodies_2026_10_01"}, time.Now(), func(put func([]byte) error) error {
		for i := range 3 {
			if err := put(fmt.Appendf(nil, `{"n":%d}`, i)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	has := func(want string, args ...string) string {
		t.Helper()
		out, err := sluice(t, append([]string{"archive"}, args...)...)
		if err != nil {
			out += err.Error()
		}
		if !strings.Contains(out, want) {
			t.Errorf("%v: no %q in\n%s", args, want, out)
		}
		return out
	}
	has("--dir", "list")
	has("nothing is archived", "verify", "--dir", t.TempDir())
	t.Setenv("SLUICE_PROCESSOR_ARCHIVE", dir)
	has(m.File, "list")
	has(`"rows": 3`, "list", "--json")
	has("✓ "+m.File+", 3 rows", "verify")
	has("✓ "+m.File, "verify", filepath.Join(dir, m.File))
	if out := has("", "cat", m.File); out != "{\"n\":0}\n{\"n\":1}\n{\"n\":2}\n" {
		t.Errorf("printed %q", out)
	}
	has("sluice archive list", "cat", "nothing.jsonl.zst")
	if err := os.Truncate(filepath.Join(dir, m.File), m.FileBytes-1); err != nil {
		t.Fatal(err)
	}
	if out, err := sluice(t, "archive", "verify"); exitCode(err) != 1 || !strings.Contains(out, "✗") || !strings.Contains(out, "damaged") {
		t.Errorf("%v\n%s", err, out)
	}
	has("damaged", "cat", m.File)
	if err := os.Remove(filepath.Join(dir, strings.TrimSuffix(m.File, ".jsonl.zst")+".json")); err != nil {
		t.Fatal(err)
	}
	has(m.File+" is no archive", "list")
	if _, err := sluice(t, "archive", "list", "--dir", filepath.Join(dir, "nowhere")); exitCode(err) != 1 {
		t.Errorf("a directory that is not there: %v", err)
	}
}
