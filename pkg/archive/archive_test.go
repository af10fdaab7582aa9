package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var at = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func bodies(origin string) Partition {
	return Partition{Table: "raw_bodies", Name: "raw_bodies_2026_10_01", Column: []Column{{"body", "bytea"}}, Bounds: "FOR VALUES FROM …", Origin: origin}
}

// rows are n lines of JSON.
func rows(n int) func(func([]byte) error) error {
	return func(put func([]byte) error) error {
		for i := range n {
			if err := put(fmt.Appendf(nil, `{"n":%d,"body":%q}`, i, strings.Repeat("x", i%50))); err != nil {
				return err
			}
		}
		return nil
	}
}

func write(t *testing.T, d Dir, n int) Manifest {
	t.Helper()
	m, err := d.Write(t.Context(), bodies("1/2/3"), at, rows(n))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestWhatIsArchivedIsListedVerifiedAndReadAsItWas(t *testing.T) {
	d := Dir(t.TempDir())
	if err := d.Check(); err != nil {
		t.Fatal(err)
	}
	m := write(t, d, 10_000)
	all, strays, err := d.List()
	if diff := cmp.Diff([]Manifest{m}, all); err != nil || diff != "" || len(strays) != 0 {
		t.Errorf("strays %v, %v\n%s", strays, err, diff)
	}
	if kept, ok, err := d.Kept("1/2/3"); err != nil || !ok || kept.File != m.File || m.Rows != 10_000 {
		t.Errorf("%+v, %v, %v", kept, ok, err)
	}
	for _, origin := range []string{"", "1/2/4"} {
		if _, ok, err := d.Kept(origin); ok || err != nil {
			t.Errorf("%q is kept, %v", origin, err)
		}
	}
	read := 0
	if err := d.Verify(t.Context(), m, func(n int) { read += n }); err != nil || int64(read) != m.FileBytes {
		t.Errorf("%d of %d bytes, %v", read, m.FileBytes, err)
	}
	var got, want bytes.Buffer
	_ = rows(10_000)(func(line []byte) error { want.Write(append(line, '\n')); return nil })
	if err := d.Cat(t.Context(), m, &got); err != nil || !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("read %d bytes, want %d, %v", got.Len(), want.Len(), err)
	}
	for _, name := range []string{m.File, "a/b/" + m.File, strings.TrimSuffix(m.File, dataSuffix) + manifestSuffix} {
		if again, err := d.Read(name); err != nil || again.SHA256 != m.SHA256 {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The same once more is the same file; other rows under the same name, of another
	// deployment say, are another.
	write(t, d, 10_000)
	write(t, d, 10_001)
	if all, _, err := d.List(); err != nil || len(all) != 2 {
		t.Errorf("%d archives, %v", len(all), err)
	}
	if err := d.Verify(t.Context(), m, nil); err != nil {
		t.Error(err)
	}
}

func TestNoRowsMakeNoFile(t *testing.T) {
	d := Dir(t.TempDir())
	if m := write(t, d, 0); m.File != "" {
		t.Errorf("%+v", m)
	}
	if left, _ := os.ReadDir(string(d)); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

func TestEveryDamageIsFound(t *testing.T) {
	d := Dir(t.TempDir())
	m := write(t, d, 5000)
	whole, err := os.ReadFile(d.path(m.File))
	if err != nil {
		t.Fatal(err)
	}
	damaged := func(what string, file []byte, m Manifest) {
		t.Helper()
		if err := os.WriteFile(d.path(m.File), file, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := d.Verify(t.Context(), m, nil); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i := 0; i < len(whole); i += len(whole)/200 + 1 {
		flipped := bytes.Clone(whole)
		flipped[i] ^= 1
		damaged(fmt.Sprint("byte ", i), flipped, m)
	}
	for _, n := range []int{0, 1, len(whole) / 2, len(whole) - 1} {
		damaged(fmt.Sprint("cut at ", n), whole[:n], m)
	}
	damaged("more at the end", append(bytes.Clone(whole), 0), m)
	damaged("twice", append(bytes.Clone(whole), whole...), m)
	fewer, more := m, m
	fewer.Rows--
	more.Bytes++
	damaged("a row that is not in the manifest", whole, fewer)
	damaged("bytes that are not there", whole, more)
	if err := os.Remove(d.path(m.File)); err != nil {
		t.Fatal(err)
	}
	if err := d.Verify(t.Context(), m, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is gone: %v", err)
	}
}

// What a program leaves that is killed at any step is not taken for an archive, and
// is gone or made whole by the next one.
func TestWhatAProgramThatDiedLeftIsNoArchive(t *testing.T) {
	d := Dir(t.TempDir())
	m := write(t, d, 100)
	for _, left := range []struct {
		what string
		undo func() error
	}{
		{"a beginning", func() error {
			return errors.Join(os.Remove(d.path(m.File)), os.Remove(d.path(strings.TrimSuffix(m.File, dataSuffix)+manifestSuffix)),
				os.WriteFile(d.path("."+m.Name+"-1234"+partialSuffix), []byte("("), 0o600))
		}},
		{"a file without its manifest", func() error { return os.Remove(d.path(strings.TrimSuffix(m.File, dataSuffix) + manifestSuffix)) }},
	} {
		if err := left.undo(); err != nil {
			t.Fatal(err)
		}
		if all, strays, err := d.List(); err != nil || len(all) != 0 || len(strays) != 1 {
			t.Errorf("%s: %v, strays %v, %v", left.what, all, strays, err)
		}
		if _, ok, err := d.Kept("1/2/3"); ok || err != nil {
			t.Errorf("%s is kept, %v", left.what, err)
		}
		again := write(t, d, 100)
		all, strays, err := d.List()
		if err != nil || len(all) != 1 || len(strays) != 0 || again.SHA256 != m.SHA256 {
			t.Errorf("after %s: %v, strays %v, %v", left.what, all, strays, err)
		}
	}
	other := "." + "raw_bodies_2026_10_02" + "-1" + partialSuffix
	if err := os.WriteFile(d.path(other), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, d, 100)
	if _, err := os.Stat(d.path(other)); err != nil {
		t.Errorf("another partition's beginning is gone: %v", err)
	}
}

func TestAFailureLeavesNothingAndSaysWhichPartition(t *testing.T) {
	d := Dir(t.TempDir())
	broken := errors.New("the connection broke")
	_, err := d.Write(t.Context(), bodies(""), at, func(put func([]byte) error) error {
		return errors.Join(rows(1000)(put), broken)
	})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "raw_bodies_2026_10_01") {
		t.Errorf("%v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := d.Write(ended, bodies(""), at, rows(1)); !errors.Is(err, context.Canceled) {
		t.Errorf("ended: %v", err)
	}
	if left, _ := os.ReadDir(string(d)); len(left) != 0 {
		t.Errorf("left %v", left)
	}
	if err := Dir(filepath.Join(string(d), "nowhere")).Check(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory that is not there: %v", err)
	}
	file := d.path("file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Dir(file).Check(); err == nil {
		t.Error("a file is taken for a directory")
	}
	if err := os.WriteFile(d.path("x"+manifestSuffix), []byte(`{"sluice_archive":2}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Read("x.json"); err == nil || !strings.Contains(err.Error(), "format is 2") {
		t.Errorf("a later format: %v", err)
	}
	if all, strays, err := d.List(); err != nil || len(all) != 0 || len(strays) != 1 {
		t.Errorf("%v, strays %v, %v", all, strays, err)
	}
	if err := os.WriteFile(d.path("x"+manifestSuffix), []byte(`{"sluice_archive":1,"file":"../secret.jsonl.zst"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Read("x.json"); !errors.Is(err, ErrDamaged) {
		t.Errorf("a manifest that leads out of the directory: %v", err)
	}
}

// BenchmarkWrite writes a million rows.
func BenchmarkWrite(b *testing.B) {
	for range b.N {
		m, err := Dir(b.TempDir()).Write(b.Context(), bodies(""), at, rows(1_000_000))
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(m.Bytes)
	}
}
