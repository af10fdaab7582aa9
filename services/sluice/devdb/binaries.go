package devdb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// minMajor is the oldest PostgreSQL that the schema works on (partitions are
// detached concurrently, columns are compressed with lz4).
const minMajor = 14

// binaries is one installation of PostgreSQL's server programs.
type binaries struct {
	dir   string
	major int
}

func (b binaries) path(program string) string { return filepath.Join(b.dir, program) }

// places are where systems put the server programs, which they leave off the
// PATH (Debian, Red Hat, Homebrew).
var places = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/usr/lib/postgresql*/bin",
	"/opt/homebrew/opt/postgresql@*/bin",
	"/usr/local/opt/postgresql@*/bin",
}

// candidates lists directories that hold a postgres program, the PATH's first.
func candidates() []string {
	var dirs []string
	add := func(dir string) {
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	if p, err := exec.LookPath("postgres"); err == nil {
		if real, err := filepath.EvalSymlinks(p); err == nil {
			add(filepath.Dir(real)) // the server finds its share directory from there
		}
		add(filepath.Dir(p))
	}
	for _, pattern := range places {
		found, _ := filepath.Glob(pattern)
		slices.Reverse(found)
		for _, dir := range found {
			add(dir)
		}
	}
	return dirs
}

var versionText = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// probe says whether dir holds working server programs, run as acc with base as
// working directory: a program on the PATH may be a wrapper, may stand alone, or
// may lie where acc cannot go.
func probe(ctx context.Context, dir string, acc *account, base string) (binaries, error) {
	b := binaries{dir: dir}
	for _, program := range []string{"postgres", "initdb"} {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, b.path(program), "--version")
		cmd.Dir = base
		acc.apply(cmd)
		out, err := cmd.Output()
		if err != nil {
			return b, fmt.Errorf("run %s: %w", b.path(program), err)
		}
		m := versionText.FindSubmatch(out)
		if m == nil {
			return b, fmt.Errorf("%s is not PostgreSQL's own", b.path(program))
		}
		b.major, _ = strconv.Atoi(string(m[1]))
	}
	if b.major < minMajor {
		return b, fmt.Errorf("%s is PostgreSQL %d; %d or newer is needed", dir, b.major, minMajor)
	}
	return b, nil
}

// find takes the first of dirs that works; a data directory that exists is only
// readable by its own major version (0: none exists). The error says what was
// wrong with each.
func find(ctx context.Context, dirs []string, acc *account, base string, major int) (binaries, error) {
	var problems []error
	for _, dir := range dirs {
		b, err := probe(ctx, dir, acc, base)
		if err == nil && major != 0 && b.major != major {
			err = fmt.Errorf("%s is PostgreSQL %d; the data directory was made by %d", dir, b.major, major)
		}
		if err == nil {
			return b, nil
		}
		problems = append(problems, err)
	}
	if len(problems) == 0 {
		problems = append(problems, errors.New("no postgres program on the PATH or where systems put it"))
	}
	return binaries{}, errors.Join(problems...)
}

// majorOf is the version that made a data directory, 0 if there is none.
func majorOf(data string) int {
	text, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if err != nil {
		return 0
	}
	major, _ := strconv.Atoi(string(regexp.MustCompile(`^\d+`).Find(text)))
	return major
}
