package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"sluice/pkg/testkit"
	"sluice/services/sluice/dev"
	"sluice/services/sluice/terminal"
)

// What others run is reported as there only once it was reached.
func TestSluiceDevWaitsForWhatItIsGivenAndSaysSo(t *testing.T) {
	database := testkit.Database(t).URL
	for name, c := range map[string]struct {
		dev   devCmd
		waits string
	}{
		"Kafka":    {devCmd{Kafka: []string{"127.0.0.1:1"}, Database: database}, "waiting for Kafka at 127.0.0.1:1: "},
		"database": {devCmd{Kafka: testkit.Kafka(t, 1).Brokers, Database: "postgres://u:hidden-password@127.0.0.1:1/d"}, "waiting for the database: "},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := dev.Open(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer dir.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			out := &until{text: c.waits, seen: cancel}
			stop, err := c.dev.parts(ctx, dir, environment{}, terminal.New(out), testkit.Log(t), func(error) {})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("ended with %v", err)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
			said := out.String()
			if !strings.Contains(said, c.waits) || strings.Contains(said, "✓ "+strings.Fields(name)[0]) || strings.Contains(said, "✓ PostgreSQL") || strings.Contains(said, "hidden-password") {
				t.Errorf("it says\n%s", said)
			}
		})
	}
}

// until calls seen once text was written.
type until struct {
	bytes.Buffer
	text string
	seen func()
}

func (u *until) Write(p []byte) (int, error) {
	n, err := u.Buffer.Write(p)
	if strings.Contains(u.String(), u.text) {
		u.seen()
	}
	return n, err
}

// Whoever takes over what sluice dev leaves for shells has a configuration that is
// right, and is told the addresses of the endpoints that the file has now.
func TestWhatSluiceDevLeavesForShellsIsAConfigurationThatIsRight(t *testing.T) {
	dir, err := dev.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	d := devCmd{Listen: "127.0.0.1:0", API: "127.0.0.1:0", Public: "127.0.0.1:0", ClickAPI: "127.0.0.1:0", Admin: "127.0.0.1:0", Mode: "test"}
	e := environment{"KAFKA_BROKERS": "127.0.0.1:9092", "DATABASE_URL": "postgres://127.0.0.1/sluice"}
	if err := d.settings(dir, e); err != nil {
		t.Fatal(err)
	}
	left, err := dev.ReadEnvironment(dir.Path())
	if err != nil {
		t.Fatal(err)
	}
	sections, err := configCheckCmd{}.check(t.Context(), environment(left))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sections {
		if s.err != nil {
			t.Errorf("%s: %v", s.name, s.err)
		}
	}

	f, err := os.OpenFile(left["SLUICE_ENDPOINTS"], os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := dir.Secret("another")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(f, "  - {name: another, provider: svix, secrets: [\"file:%s\"]}\n", secret); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	now, err := load(e)
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	d.next(terminal.New(&said), dir, e, now)
	for _, want := range []string{"/webhooks/{stripe,shop,acme-pay,another}", "/webhooks/{payme,click}"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("it does not say %s:\n%s", want, said.String())
		}
	}
}
