package archive

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// ErrDamaged: a file is not what its manifest says.
var ErrDamaged = errors.New("the archive is damaged")

// List returns what the directory holds, by partition, and the names of files that are
// nothing: beginnings of a program that died, and what no manifest of this format is.
func (d Dir) List() (all []Manifest, strays []string, err error) {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return nil, nil, fmt.Errorf("list the archive: %w", err)
	}
	spoken := map[string]bool{}
	for _, e := range entries {
		if name := e.Name(); strings.HasSuffix(name, manifestSuffix) {
			m, err := d.Read(name)
			if err != nil {
				strays = append(strays, name)
				continue
			}
			spoken[m.File] = true
			all = append(all, m)
		}
	}
	for _, e := range entries {
		name := e.Name()
		if strings.HasSuffix(name, partialSuffix) || strings.HasSuffix(name, dataSuffix) && !spoken[name] {
			strays = append(strays, name)
		}
	}
	slices.SortFunc(all, func(a, b Manifest) int {
		return cmp.Or(cmp.Compare(a.Table, b.Table), cmp.Compare(len(a.Name), len(b.Name)), // numbers by their size
			cmp.Compare(a.Name, b.Name), cmp.Compare(a.SHA256, b.SHA256))
	})
	return all, strays, nil
}

// Read reads one manifest: name is the manifest's, or its file's.
func (d Dir) Read(name string) (m Manifest, err error) {
	name = strings.TrimSuffix(strings.TrimSuffix(filepath.Base(name), dataSuffix), manifestSuffix) + manifestSuffix
	text, err := os.ReadFile(d.path(name))
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	switch {
	case err != nil:
	case m.Format != format:
		err = fmt.Errorf("its format is %d, and this program reads %d", m.Format, format)
	case m.File != filepath.Base(m.File) || !strings.HasSuffix(m.File, dataSuffix):
		err = fmt.Errorf("%w: it names file %q", ErrDamaged, m.File)
	}
	if err != nil {
		return m, fmt.Errorf("read manifest %s: %w", name, err)
	}
	return m, nil
}

// Kept finds what is archived of the partition with that origin; false if nothing is.
func (d Dir) Kept(origin string) (Manifest, bool, error) {
	if origin == "" {
		return Manifest{}, false, nil
	}
	all, _, err := d.List()
	i := slices.IndexFunc(all, func(m Manifest) bool { return m.Origin == origin })
	if err != nil || i < 0 {
		return Manifest{}, false, err
	}
	return all[i], true, nil
}

// Verify reads a whole file and holds it to its manifest: ErrDamaged, or what failed.
// progress, if not nil, is told how many bytes of the file were read.
func (d Dir) Verify(ctx context.Context, m Manifest, progress func(n int)) error {
	if err := m.verify(ctx, d.path(m.File), progress); err != nil {
		return fmt.Errorf("verify %s: %w", m.File, err)
	}
	return nil
}

func (m Manifest) verify(ctx context.Context, path string, progress func(int)) error {
	return m.read(ctx, path, progress, io.Discard)
}

// Cat writes the rows of a file, a line each, and verifies it while it reads: an error
// at the end says that what was written is not what was archived.
func (d Dir) Cat(ctx context.Context, m Manifest, to io.Writer) error {
	if err := m.read(ctx, d.path(m.File), nil, to); err != nil {
		return fmt.Errorf("read %s: %w", m.File, err)
	}
	return nil
}

func (m Manifest) read(ctx context.Context, path string, progress func(int), rows io.Writer) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	sum := sha256.New()
	file := &counted{ctx: ctx, from: io.TeeReader(f, sum), progress: progress}
	// The sum is of the whole file, whatever the decoder needs of it.
	z, err := zstd.NewReader(file, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
	if err != nil {
		return err
	}
	defer z.Close()
	body := &lines{to: rows}
	_, err = io.Copy(body, z)
	if err == nil {
		_, err = io.Copy(io.Discard, file)
	}
	var damage error
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case body.refused != nil:
		return body.refused
	case file.failed != nil:
		return file.failed
	case err != nil:
		damage = err
	case file.n != m.FileBytes || hex.EncodeToString(sum.Sum(nil)) != m.SHA256:
		damage = fmt.Errorf("its %d bytes have another SHA-256 than the %d that were written", file.n, m.FileBytes)
	case body.n-1 != m.Rows || body.bytes != m.Bytes:
		damage = fmt.Errorf("it holds %d rows in %d bytes, not %d in %d", body.n-1, body.bytes, m.Rows, m.Bytes)
	}
	if damage != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, damage)
	}
	return nil
}

// counted counts what is read.
type counted struct {
	ctx      context.Context
	from     io.Reader
	progress func(int)
	n        int64
	failed   error // of the file system
}

func (c *counted) Read(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.from.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		c.failed = err
	}
	c.n += int64(n)
	if c.progress != nil {
		c.progress(n)
	}
	return n, err
}

// lines counts lines, and hands all but the first on.
type lines struct {
	to       io.Writer
	behind   bool // the first line
	n, bytes int64
	refused  error // by whoever takes the rows
}

func (l *lines) Write(b []byte) (int, error) {
	taken := len(b)
	l.bytes += int64(taken)
	l.n += int64(bytes.Count(b, []byte{'\n'}))
	if !l.behind {
		_, b, l.behind = bytes.Cut(b, []byte{'\n'})
	}
	if _, err := l.to.Write(b); err != nil {
		l.refused = err
		return 0, err
	}
	return taken, nil
}
