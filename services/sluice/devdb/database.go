// Package devdb runs a PostgreSQL server of its own for development: from the
// machine's programs or downloaded ones, on loopback only, with PostgreSQL's
// default durability, in a directory that survives restarts and on a port that stays the same.
package devdb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sluice/pkg/postgres"
	"sluice/services/sluice/child"
	"sluice/services/sluice/port"
)

const name = "sluice" // of the database and of its owner

// Config says where the server keeps its data and whom it lets in.
type Config struct {
	// Dir is created if missing. One server at a time may use it; the caller sees
	// to that.
	Dir string
	// Password of the database's owner; used when the data directory is made, and
	// the same ever after.
	Password string
	// Search replaces the places where server programs are looked for (tests).
	Search []string
	// NoDownload: never fetch server programs.
	NoDownload bool
}

// Database is a running server.
type Database struct {
	// URL is its address with the password in it.
	URL string
	// Version is PostgreSQL's major version, Programs where its programs lie, Dir
	// where its data does, Account whom it runs as ("" = ourselves).
	Version  int
	Programs string
	Dir      string
	Account  string

	process *child.Child
	log     *os.File
}

// advice for a machine where no server can be had.
const advice = `PostgreSQL could not be started. Any one of these helps:
  - install its server:  apt-get install postgresql   (macOS: brew install postgresql@17)
  - point at a running one:  --database postgres://user:password@host:5432/database
`

// Start brings the server up and returns when it answers.
func Start(ctx context.Context, cfg Config, log *slog.Logger) (*Database, error) {
	acc, err := whom()
	if err != nil {
		return nil, fmt.Errorf("%s%w", advice, err)
	}
	base, err := place(cfg.Dir, acc, sharedTemp)
	if err != nil {
		return nil, fmt.Errorf("choose the database's directory: %w", err)
	}
	data := filepath.Join(base, "data")
	at, err := port.Choose(filepath.Join(cfg.Dir, "port"), 0)
	if err != nil {
		return nil, err
	}
	bin, err := programs(ctx, cfg, acc, base, majorOf(data), log)
	if err != nil {
		return nil, err
	}
	s := server{bin: bin, acc: acc, base: base, data: data, port: at, password: cfg.Password}
	if majorOf(data) == 0 {
		if err := s.init(ctx); err != nil {
			return nil, fmt.Errorf("make the database's data directory: %w", err)
		}
	}
	if err := s.clear(ctx, log); err != nil {
		return nil, err
	}
	return s.start(ctx)
}

// programs finds the machine's server programs, else downloads some.
func programs(ctx context.Context, cfg Config, acc *account, base string, major int, log *slog.Logger) (binaries, error) {
	dirs := cfg.Search
	if dirs == nil {
		dirs = candidates()
	}
	bin, err := find(ctx, dirs, acc, base, major)
	if err == nil {
		return bin, nil
	}
	if cfg.NoDownload {
		return bin, fmt.Errorf("%s%w", advice, err)
	}
	log.Info("no usable PostgreSQL on this machine: downloading one, once", "reason", err)
	at, perr := port.Free()
	if perr != nil {
		return bin, perr
	}
	dir, ferr := fetch(filepath.Join(base, "postgresql"), at)
	if ferr == nil {
		bin, ferr = find(ctx, []string{dir}, acc, base, major)
	}
	if ferr != nil {
		return bin, fmt.Errorf("%son this machine: %w\ndownload: %w", advice, err, ferr)
	}
	return bin, nil
}

type server struct {
	bin        binaries
	acc        *account
	base, data string
	port       int
	password   string
}

func (s server) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.bin.path(program), args...)
	cmd.Dir = s.base
	cmd.Env = []string{"LC_ALL=C", "TZ=UTC", "PATH=" + os.Getenv("PATH")}
	s.acc.apply(cmd)
	return cmd
}

// init makes the data directory, under another name until it is whole.
func (s server) init(ctx context.Context) error {
	fresh := s.data + ".new"
	for _, dir := range []string{fresh, s.data} {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	password := filepath.Join(s.base, "initial-password")
	if err := os.WriteFile(password, []byte(s.password+"\n"), 0o600); err != nil {
		return err
	}
	defer func() { _ = os.Remove(password) }()
	if err := s.acc.own(password); err != nil {
		return err
	}
	initdb := s.command(ctx, "initdb", "--pgdata", fresh, "--username", name, "--pwfile", password,
		"--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C")
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, bytes.TrimSpace(out))
	}
	create := s.command(ctx, "postgres", "--single", "-D", fresh, "postgres")
	create.Stdin = strings.NewReader("CREATE DATABASE " + name + ";\n")
	if out, err := create.CombinedOutput(); err != nil {
		return fmt.Errorf("create database: %w: %s", err, bytes.TrimSpace(out))
	}
	return os.Rename(fresh, s.data)
}

// clear sees to a server that a killed run left behind: it stops by itself when
// its parent dies, which may take a moment. A process id that now belongs to
// another program would keep the new server from starting.
func (s server) clear(ctx context.Context, log *slog.Logger) error {
	file := filepath.Join(s.data, "postmaster.pid")
	pid := postmaster(file)
	if pid == 0 || !alive(pid) {
		return nil
	}
	if comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil && strings.TrimSpace(string(comm)) != "postgres" {
		return os.Remove(file)
	}
	log.Info("waiting for the database server of an earlier run to stop", "pid", pid)
	interrupt(pid)
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		select {
		case <-tick.C:
			if postmaster(file) != pid || !alive(pid) {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("the database server of an earlier run (process %d) does not stop; end it, then try again", pid)
		}
	}
}

func postmaster(file string) int {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, _ := strconv.Atoi(strings.TrimSpace(line))
	return pid
}

// start runs the server and waits until it lets us in.
func (s server) start(ctx context.Context) (*Database, error) {
	log, err := os.OpenFile(filepath.Join(s.base, "postgres.log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the database's log: %w", err)
	}
	// Not bound to ctx: Stop ends it, after its clients.
	cmd := s.command(context.WithoutCancel(ctx), "postgres", "-D", s.data,
		"-c", "listen_addresses=127.0.0.1", "-c", "port="+strconv.Itoa(s.port), "-c", "unix_socket_directories=")
	cmd.Stdout, cmd.Stderr = log, log
	process, err := child.Start(cmd, syscall.SIGINT) // a "fast" shutdown: it does not wait for its clients
	if err != nil {
		_ = log.Close()
		return nil, err
	}
	address := url.URL{Scheme: "postgres", User: url.UserPassword(name, s.password), Path: "/" + name, RawQuery: "sslmode=disable",
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))}
	db := &Database{URL: address.String(), Version: s.bin.major, Programs: s.bin.dir, Dir: s.data, process: process, log: log}
	if s.acc != nil {
		db.Account = s.acc.name
	}
	if err := db.wait(ctx); err != nil {
		_ = db.Stop()
		return nil, fmt.Errorf("%w\nits log ends with:\n%s", err, tail(log.Name(), 15))
	}
	return db, nil
}

func (d *Database) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		store, err := postgres.Open(ctx, postgres.Config{URL: d.URL}, 1)
		if err == nil {
			store.Close()
			return nil
		}
		select {
		case <-d.process.Done():
			return fmt.Errorf("the database server ended: %w", errors.Join(d.process.Err(), err))
		case <-ctx.Done():
			return fmt.Errorf("the database server does not answer: %w", err)
		case <-tick.C:
		}
	}
}

// Done is closed when the server has ended, asked or not.
func (d *Database) Done() <-chan struct{} { return d.process.Done() }

// Stop shuts the server down cleanly.
func (d *Database) Stop() error {
	defer func() { _ = d.log.Close() }()
	return d.process.Stop(30 * time.Second)
}

func tail(path string, lines int) string {
	text, _ := os.ReadFile(path)
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
