package main

import (
	"bytes"
	"context"
	"errors"
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
