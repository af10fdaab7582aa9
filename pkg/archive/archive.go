// Package archive keeps rows that leave the database as files in a directory: JSON
// lines, compressed with zstd, each file with a manifest beside it. A manifest is
// there only if its file is complete, on disk, and was read back.
//
// Its path: write.go makes a file, read.go lists, verifies and reads them.
package archive

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// format is what the files are; a later one gets another number.
const format = 1

// Column is one column of the rows.
type Column struct {
	Name string `json:"name"`
	Type string `json:"type"` // PostgreSQL's name of it
}

// Partition is what is archived.
type Partition struct {
	Table  string   `json:"table"`
	Name   string   `json:"partition"`
	Bounds string   `json:"bounds,omitempty"` // as PostgreSQL writes them
	Column []Column `json:"columns"`
	// Origin is the same only for the same table of the same database cluster; empty if
	// that is not known.
	Origin string `json:"origin,omitempty"`
}

// header is a file's first line.
type header struct {
	Format int `json:"sluice_archive"`
	Partition
}

// Manifest says what one file holds.
type Manifest struct {
	Format int `json:"sluice_archive"`
	Partition
	// File is the file's name, beside the manifest.
	File string `json:"file"`
	Rows int64  `json:"rows"`
	// Bytes are those of the lines; FileBytes and SHA256 (hexadecimal) are of the file as
	// it lies there, so that sha256sum can check it too.
	Bytes      int64     `json:"bytes"`
	FileBytes  int64     `json:"file_bytes"`
	SHA256     string    `json:"sha256"`
	ArchivedAt time.Time `json:"archived_at"`
}

// How files are named: the partition's name and the begin of the file's sum, so that
// no two deployments that share a directory ever overwrite each other's.
const (
	dataSuffix     = ".jsonl.zst"
	manifestSuffix = ".json"
	partialSuffix  = ".partial"
	sumInName      = 12
)

// Dir is a directory of archived partitions.
type Dir string

// Check says whether the directory is there and can be written.
func (d Dir) Check() error {
	s, err := os.Stat(string(d))
	if err == nil && !s.IsDir() {
		err = errors.New("it is no directory")
	}
	var f *os.File
	if err == nil {
		f, err = os.CreateTemp(string(d), ".check-*"+partialSuffix)
	}
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(f.Name()))
	}
	if err != nil {
		return fmt.Errorf("archive in directory %s: %w", d, err)
	}
	return nil
}

func (d Dir) path(name string) string { return filepath.Join(string(d), name) }

// sync makes names durable that were given in the directory.
func (d Dir) sync() error {
	f, err := os.Open(string(d))
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func encode(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	return append(text, '\n'), err
}
