// Package dev brings up what a deployment needs around the roles, on one machine:
// a data directory that survives restarts, generated secrets, an endpoints file,
// the development broker and a PostgreSQL server.
package dev

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"sluice/services/sluice/lockfile"
)

// Dir is the data directory of one running sluice dev.
type Dir struct {
	path string
	lock *os.File
}

// Open takes a data directory, made if missing, for this process alone.
func Open(path string) (*Dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	// Others may pass, so that the database's account can; they cannot look.
	if err := os.MkdirAll(abs, 0o711); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	now, cancel := context.WithCancel(context.Background())
	cancel()
	lock, err := lockfile.Take(now, filepath.Join(abs, "dev.lock"))
	if errors.Is(err, lockfile.ErrTaken) {
		return nil, fmt.Errorf("data directory %s: %w; stop that one, or give another --data-dir", abs, err)
	}
	if err != nil {
		return nil, fmt.Errorf("use data directory %s: %w", abs, err)
	}
	return &Dir{path: abs, lock: lock}, nil
}

// Close gives the directory back.
func (d *Dir) Close() { _ = d.lock.Close() }

// Path is the absolute path of something in the directory.
func (d *Dir) Path(elements ...string) string {
	return filepath.Join(append([]string{d.path}, elements...)...)
}

// Secret is the path of a generated secret, in the form that most providers use;
// it is made once.
func (d *Dir) Secret(name string) (string, error) {
	path := d.Path("secrets", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return path, nil
	}
	if err != nil {
		return "", err
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	_, err = fmt.Fprintln(f, "whsec_"+base64.StdEncoding.EncodeToString(key))
	return path, errors.Join(err, f.Close())
}

// Password is the text of a generated secret for a program, not for a person.
func (d *Dir) Password(name string) (string, error) {
	path, err := d.Secret(name)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	return strings.TrimPrefix(strings.TrimSpace(string(text)), "whsec_"), nil
}

//go:embed endpoints.yaml
var endpointsTemplate string

// Names of the endpoints that a new endpoints file has.
const (
	Stripe   = "stripe"
	Shop     = "shop"
	Payme    = "payme"
	Click    = "click"
	Declared = "acme-pay"
)

// standIn is the line of the endpoints file that says where the stand-in for Click's
// API is.
var standIn = regexp.MustCompile(`(?m)^(\s*base_url: )http://\S+(  # sluice dev's stand-in for Click's API)$`)

// Endpoints is the path of the endpoints file. It is made once; then it is the
// user's to change. Only where the stand-in for Click's API is, is kept right.
func (d *Dir) Endpoints(clickAPI string) (string, error) {
	path := d.Path("endpoints.yaml")
	text, err := os.ReadFile(path)
	if err == nil {
		now := standIn.ReplaceAll(text, []byte("${1}"+clickAPI+"${2}"))
		if bytes.Equal(now, text) {
			return path, nil
		}
		return path, os.WriteFile(path, now, 0o600)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read endpoints file: %w", err)
	}
	secrets := map[string]string{"click_api": clickAPI}
	for _, name := range []string{Stripe, Shop, Payme, Click, Declared} {
		file, err := d.Secret(name)
		if err != nil {
			return "", fmt.Errorf("make secret of endpoint %s: %w", name, err)
		}
		secrets[strings.ReplaceAll(name, "-", "_")] = "file:" + file
	}
	var b bytes.Buffer
	if err := template.Must(template.New("endpoints").Parse(endpointsTemplate)).Execute(&b, secrets); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, b.Bytes(), 0o600)
}

// environmentFile can be read by a shell.
const environmentFile = "env"

// plainWord is what a shell takes as it is.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// ShellWord is text as a person can paste it into a shell.
func ShellWord(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return quoted(text)
}

func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// Source is the shell command that takes over what WriteEnvironment left.
func (d *Dir) Source() string { return "source " + ShellWord(d.Path(environmentFile)) }

// WriteEnvironment leaves settings for other commands and for shells.
func (d *Dir) WriteEnvironment(e map[string]string) error {
	var b bytes.Buffer
	fmt.Fprintln(&b, "# Of the sluice dev of this directory. In a shell:  "+d.Source())
	for _, name := range slices.Sorted(maps.Keys(e)) {
		fmt.Fprintf(&b, "export %s=%s\n", name, quoted(e[name]))
	}
	return os.WriteFile(d.Path(environmentFile), b.Bytes(), 0o600)
}

// ReadEnvironment reads what WriteEnvironment left in a data directory; empty if
// nobody ever did.
func ReadEnvironment(dataDir string) (map[string]string, error) {
	e := map[string]string{}
	text, err := os.ReadFile(filepath.Join(dataDir, environmentFile))
	if errors.Is(err, fs.ErrNotExist) {
		return e, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read settings of sluice dev: %w", err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		name, value, ok := strings.Cut(strings.TrimPrefix(lines.Text(), "export "), "=")
		if ok && strings.HasPrefix(lines.Text(), "export ") {
			e[name] = strings.ReplaceAll(strings.Trim(value, "'"), `'\''`, "'")
		}
	}
	return e, nil
}
