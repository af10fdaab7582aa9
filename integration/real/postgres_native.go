package real

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// postgresPrograms finds the folder of initdb and postgres. Debian keeps them
// off the PATH, one folder for each version.
func postgresPrograms() (string, error) {
	candidates, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if path, err := exec.LookPath("initdb"); err == nil {
		candidates = append(candidates, filepath.Dir(path))
	}
	for i := len(candidates) - 1; i >= 0; i-- {
		_, noInitdb := os.Stat(filepath.Join(candidates[i], "initdb"))
		_, noServer := os.Stat(filepath.Join(candidates[i], "postgres"))
		if noInitdb == nil && noServer == nil {
			return candidates[i], nil
		}
	}
	return "", errors.New("PostgreSQL is not installed: install it (Debian: postgresql)")
}

// unprivileged is whom to run as, since PostgreSQL refuses root. nil: ourselves.
func unprivileged() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if found, err := user.Lookup(name); err == nil {
			uid, _ := strconv.ParseUint(found.Uid, 10, 32)
			gid, _ := strconv.ParseUint(found.Gid, 10, 32)
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("PostgreSQL refuses to run as root, and there is no user postgres or nobody: run as another user")
}

func (p *Postgres) startNatively(ctx context.Context, options PostgresOptions) error {
	programs, err := postgresPrograms()
	if err != nil {
		return err
	}
	as, err := unprivileged()
	if err != nil {
		return err
	}
	port, err := freePort(ctx)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "sluice-postgres-")
	if err != nil {
		return err
	}
	server := &process{folder: folder, user: as, stopSignal: syscall.SIGINT}
	p.host, p.origin, p.url = server, filepath.Join(programs, "postgres"), postgresURL("127.0.0.1", port)
	password := filepath.Join(folder, "password")
	if err := os.WriteFile(password, []byte(postgresPassword+"\n"), 0o600); err != nil {
		return err
	}
	if as != nil {
		for _, path := range []string{folder, password} {
			if err := os.Chown(path, int(as.Uid), int(as.Gid)); err != nil {
				return err
			}
		}
	}
	data := filepath.Join(folder, "data")
	server.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + folder, "LC_ALL=C.UTF-8"}
	initdb := exec.CommandContext(ctx, filepath.Join(programs, "initdb"), "-D", data, "-U", postgresUser,
		"-E", "UTF8", "-A", "scram-sha-256", "--pwfile", password)
	initdb.Dir, initdb.Env, initdb.SysProcAttr = folder, server.env, attributes(as, syscall.SIGKILL)
	if output, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, lastLines(string(output)))
	}
	server.command = append([]string{filepath.Join(programs, "postgres"), "-D", data, "-p", strconv.Itoa(port),
		// No socket file: a path below a long TMPDIR would be too long for one.
		"-c", "unix_socket_directories=", "-c", "listen_addresses=127.0.0.1"}, arguments(options)...)
	return server.start(ctx)
}
