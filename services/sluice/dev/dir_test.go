package dev

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sluice/pkg/endpoint"
	"sluice/pkg/event"
	"sluice/services/sluice/lockfile"
)

func open(t *testing.T, path string) *Dir {
	t.Helper()
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func TestSecretsAndEndpointsStayFromRunToRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	load := func() map[string]string {
		d := open(t, path)
		defer d.Close()
		file, err := d.Endpoints("http://127.0.0.1:8083")
		if err != nil {
			t.Fatal(err)
		}
		set, err := endpoint.Load(file, event.Test, os.LookupEnv, os.ReadFile)
		if err != nil {
			t.Fatal(err)
		}
		secrets := map[string]string{}
		for _, name := range []string{Stripe, Shop, Payme, Click, Declared} {
			e, ok := set.Get(name)
			if !ok {
				t.Fatalf("no endpoint %s", name)
			}
			text, err := os.ReadFile(d.Path("secrets", e.Name))
			if err != nil {
				t.Fatal(err)
			}
			secrets[name] = string(text)
		}
		return secrets
	}
	first, again := load(), load()
	for name := range first {
		if first[name] != again[name] {
			t.Errorf("the secret of %s changed", name)
		}
	}
	if first[Stripe] == first[Shop] {
		t.Error("two endpoints have one secret")
	}
}

func TestTheEndpointsFileIsTheUsersOnceItIsMade(t *testing.T) {
	d := open(t, t.TempDir())
	file, err := d.Endpoints("http://127.0.0.1:8083")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Endpoints("http://127.0.0.1:8083"); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(file); string(text) != "mine" {
		t.Error("the user's endpoints file was overwritten")
	}
}

func TestTheStandInForClicksAPIIsFoundWhereItIsNow(t *testing.T) {
	d := open(t, t.TempDir())
	file, err := d.Endpoints("http://127.0.0.1:8083")
	if err != nil {
		t.Fatal(err)
	}
	first, _ := os.ReadFile(file)
	if _, err := d.Endpoints("http://127.0.0.1:9999"); err != nil {
		t.Fatal(err)
	}
	if now, _ := os.ReadFile(file); string(now) != strings.ReplaceAll(string(first), ":8083", ":9999") || string(now) == string(first) {
		t.Errorf("it is now\n%s", now)
	}
	if err := os.WriteFile(file, []byte("    base_url: http://127.0.0.1:8083\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Endpoints("http://127.0.0.1:9999"); err != nil {
		t.Fatal(err)
	}
	if now, _ := os.ReadFile(file); !strings.Contains(string(now), ":8083") {
		t.Error("an address of the user's own was changed")
	}
}

func TestADataDirectoryInUseIsRefused(t *testing.T) {
	path := t.TempDir()
	open(t, path)
	if _, err := Open(path); !errors.Is(err, lockfile.ErrTaken) {
		t.Errorf("got %v", err)
	}
}

func TestNobodyElseCanReadWhatIsSecret(t *testing.T) {
	d := open(t, t.TempDir())
	if _, err := d.Endpoints("http://127.0.0.1:8083"); err != nil {
		t.Fatal(err)
	}
	if err := d.WriteEnvironment(map[string]string{"DATABASE_URL": "secret"}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{d.Path("env"), d.Path("secrets", Stripe), d.Path("secrets")} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
	}
}

func TestTheCommandForShellsWorksWhateverThePath(t *testing.T) {
	for _, name := range []string{"plain", "with space", "it's", "$HOME"} {
		d := open(t, filepath.Join(t.TempDir(), name))
		if err := d.WriteEnvironment(map[string]string{"SLUICE_MODE": "test"}); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("bash", "-c", d.Source()+" && echo $SLUICE_MODE").CombinedOutput()
		if err != nil || string(out) != "test\n" {
			t.Errorf("%s: %v %s", d.Source(), err, out)
		}
	}
	if got := ShellWord("/a/b-1/.sluice/env"); got != "/a/b-1/.sluice/env" {
		t.Errorf("a plain path is quoted: %s", got)
	}
}

func TestSettingsLeftForOthersAreReadBackByProgramsAndShells(t *testing.T) {
	d := open(t, t.TempDir())
	want := map[string]string{"DATABASE_URL": "postgres://u:p@127.0.0.1:1/d?sslmode=disable", "ODD": `it's $HOME "x" \ y`, "EMPTY": ""}
	if err := d.WriteEnvironment(want); err != nil {
		t.Fatal(err)
	}
	got, err := ReadEnvironment(d.Path())
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s = %q, want %q", name, got[name], value)
		}
		shell, err := exec.Command("sh", "-c", `. "$1"; printenv "$2"`, "sh", d.Path("env"), name).Output()
		if err != nil || string(shell) != value+"\n" {
			t.Errorf("a shell reads %s as %q (%v), want %q", name, shell, err, value)
		}
	}
	if none, err := ReadEnvironment(t.TempDir()); err != nil || len(none) != 0 {
		t.Errorf("where nobody wrote: %v, %v", none, err)
	}
}
