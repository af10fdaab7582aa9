package archive

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Write writes the rows of a partition into a file of their own and returns once file
// and manifest are on disk and the file was read back. rows calls its argument with
// each row as one line of JSON, without its end, and stops at its error; it may use
// the memory again. Without rows nothing is written, and the manifest is zero.
//
// Killed at any step it leaves the directory sound: what has no manifest is not
// there, and the next Write of the partition removes its beginnings. Two at once
// disturb neither. It holds some 20 MiB, whatever the rows are.
func (d Dir) Write(ctx context.Context, p Partition, now time.Time, rows func(func(line []byte) error) error) (m Manifest, err error) {
	defer func() {
		if err != nil {
			m, err = Manifest{}, fmt.Errorf("archive %s in %s: %w", p.Name, d, err)
		}
	}()
	if err := d.removePartials(p.Name); err != nil {
		return m, err
	}
	f, err := os.CreateTemp(string(d), "."+p.Name+"-*"+partialSuffix)
	if err != nil {
		return m, err
	}
	defer func() { _ = os.Remove(f.Name()) }() // there only if it came to nothing
	m = Manifest{Format: format, Partition: p, ArchivedAt: now.UTC().Truncate(time.Second)}
	if err := errors.Join(m.fill(f, rows), f.Close()); err != nil || m.Rows == 0 {
		return Manifest{}, err
	}
	if err := m.verify(ctx, f.Name(), nil); err != nil {
		return m, fmt.Errorf("read it back: %w", err)
	}
	base := p.Name + "-" + m.SHA256[:sumInName]
	m.File = base + dataSuffix
	if err := os.Rename(f.Name(), d.path(m.File)); err != nil {
		return m, err
	}
	if err := d.sync(); err != nil {
		return m, err
	}
	return m, d.writeManifest(base, m)
}

// fill writes the file, down to the disk, and counts it.
func (m *Manifest) fill(f *os.File, rows func(func([]byte) error) error) error {
	sum := &summed{to: f, sum: sha256.New()}
	// One goroutine: it shares the machine with what it archives for.
	z, err := zstd.NewWriter(sum, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	lines := bufio.NewWriterSize(z, 64<<10)
	put := func(line []byte) error {
		_, err := lines.Write(line)
		m.Bytes += int64(len(line))
		return err
	}
	head, err := encode(header{format, m.Partition})
	if err == nil {
		err = put(head)
	}
	if err == nil {
		err = rows(func(line []byte) error {
			if err := put(line); err != nil {
				return err
			}
			m.Rows++
			return put([]byte{'\n'})
		})
	}
	if err := errors.Join(err, lines.Flush(), z.Close()); err != nil {
		return err
	}
	m.FileBytes, m.SHA256 = sum.n, hex.EncodeToString(sum.sum.Sum(nil))
	return f.Sync()
}

// summed sums up what it writes.
type summed struct {
	to  io.Writer
	sum hash.Hash
	n   int64
}

func (s *summed) Write(b []byte) (int, error) {
	n, err := s.to.Write(b)
	s.sum.Write(b[:n])
	s.n += int64(n)
	return n, err
}

// writeManifest puts the manifest in its place, whole or not at all.
func (d Dir) writeManifest(base string, m Manifest) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(string(d), "."+m.Name+"-*"+partialSuffix)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.Write(append(text, '\n'))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), d.path(base+manifestSuffix)); err != nil {
		return err
	}
	return d.sync()
}

// removePartials removes what a program that died has begun of a partition.
func (d Dir) removePartials(name string) error {
	found, err := filepath.Glob(d.path("." + name + "-*" + partialSuffix))
	for _, file := range found {
		err = errors.Join(err, os.Remove(file))
	}
	return err
}
