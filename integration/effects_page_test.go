package integration

import (
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/integration/harness"
)

// What docs/effects.md has its reader type: the effect waits for its receiver, and a
// payment that is told of five times makes one parcel. (O43)
func TestSomeoneNewFollowsTheEffectsPage(t *testing.T) {
	dir := t.TempDir()
	receiver := filepath.Join(dir, "receiver")
	if said, err := exec.CommandContext(t.Context(), "go", "build", "-o", receiver, "sluice/integration/receiver/serve").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(harness.Program(t), filepath.Join(dir, "bin", "sluice")); err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	here := strings.NewReplacer("127.0.0.1:8090", address, "go run ./integration/receiver/serve", "exec "+receiver, "make build && ", "exec env ")
	var commands []string
	for _, m := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(read(t, filepath.Join(harness.Root(), "docs", "effects.md")), -1) {
		commands = append(commands, here.Replace(m[1]))
	}
	if len(commands) != 5 {
		t.Fatalf("docs/effects.md has %d commands", len(commands))
	}
	types(t, dir, nil, commands[0])
	dev := startShell(t, dir, nil, commands[1])
	dev.says("Running. Ctrl-C stops it")
	if said := types(t, dir, nil, commands[2]); !regexp.MustCompile(`fulfil_[0-9a-f]{32} +E-1 .*no connection`).MatchString(said) {
		t.Errorf("before there is a receiver:\n%s", said)
	}
	startShell(t, dir, nil, commands[3]).says("receiving")
	harness.Eventually(t, "the effect is done", 4*time.Minute, func() error {
		said := types(t, dir, nil, commands[4])
		if !strings.Contains(said, "done") {
			return fmt.Errorf("it says\n%s", said)
		}
		return nil
	})
	db, err := sql.Open("pgx", types(t, dir, nil, `source .sluice/env; echo -n "$DATABASE_URL"`))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var parcels int
	if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM shipments WHERE order_id = 'E-1'`).Scan(&parcels); err != nil || parcels != 1 {
		t.Errorf("%d parcels, %v", parcels, err)
	}
	dev.stop(syscall.SIGINT)
}
