package devdb

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/pkg/postgres"
)

func log(t *testing.T) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

func start(t *testing.T, cfg Config) *Database {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cfg.Password = "of this test"
	db, err := Start(ctx, cfg, log(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = db.Stop()
		_ = os.RemoveAll(filepath.Dir(db.Dir)) // as root it is not below the test's own directory
	})
	return db
}

func TestTheDatabaseSurvivesARestartOnItsPort(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "database")
	db := start(t, Config{Dir: dir})
	if err := postgres.Migrate(t.Context(), postgres.Config{URL: db.URL}); err != nil {
		t.Fatal(err)
	}
	if err := db.Stop(); err != nil {
		t.Fatal(err)
	}
	again := start(t, Config{Dir: dir})
	if again.URL != db.URL {
		t.Errorf("the address changed from run to run")
	}
	if err := postgres.CheckSchema(t.Context(), postgres.Config{URL: again.URL}); err != nil {
		t.Errorf("the schema did not survive: %v", err)
	}
}

func TestAServerLeftBehindByAKilledRunIsStoppedFirst(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "database")
	left := start(t, Config{Dir: dir})
	again := start(t, Config{Dir: dir})
	select {
	case <-left.Done():
	default:
		t.Error("two servers run on one data directory")
	}
	if _, err := postgres.Open(t.Context(), postgres.Config{URL: again.URL}, 1); err != nil {
		t.Error(err)
	}
}

func TestAProcessIdThatNowBelongsToAnotherProgramDoesNotKeepTheServerFromStarting(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "database")
	db := start(t, Config{Dir: dir})
	if err := db.Stop(); err != nil {
		t.Fatal(err)
	}
	stale := strconv.Itoa(os.Getpid()) + "\n" + db.Dir + "\n"
	if err := os.WriteFile(filepath.Join(db.Dir, "postmaster.pid"), []byte(stale), 0o644); err != nil {
		t.Fatal(err)
	}
	start(t, Config{Dir: dir})
}

func TestStrangersWithoutThePasswordAreKeptOut(t *testing.T) {
	db := start(t, Config{Dir: filepath.Join(t.TempDir(), "database")})
	wrong := strings.Replace(db.URL, "of%20this%20test", "wrong", 1)
	if wrong == db.URL {
		t.Fatal("the address holds no password")
	}
	if _, err := postgres.Open(t.Context(), postgres.Config{URL: wrong}, 1); err == nil {
		t.Error("the database let in a stranger")
	}
}

func TestWithoutAnyServerProgramTheErrorAdvises(t *testing.T) {
	broken := t.TempDir()
	wrapper := []byte("#!/bin/sh\necho no such thing\n")
	if err := os.WriteFile(filepath.Join(broken, "postgres"), wrapper, 0o755); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "database")
	t.Cleanup(func() {
		acc, _ := whom()
		if base, err := place(dir, acc, sharedTemp); err == nil {
			_ = os.RemoveAll(base)
		}
	})
	_, err := Start(t.Context(), Config{Dir: dir, Search: []string{broken, "/nowhere"}, NoDownload: true}, log(t))
	if err == nil {
		t.Fatal("started without a server")
	}
	for _, want := range []string{"apt-get install postgresql", "--database", broken, "/nowhere"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the advice does not name %q:\n%v", want, err)
		}
	}
}
