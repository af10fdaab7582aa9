// Package testkit gives tests real parts: databases cloned from a migrated
// template and topics of their own on one broker. It is for tests only.
package testkit

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/pkg/postgres"
)

const advice = "is not set: run `make test`, or `make parts` and export what it prints"

var template = sync.OnceValues(makeTemplate)

// Database gives t a migrated PostgreSQL database of its own, dropped at its end.
func Database(t testing.TB) postgres.Config {
	t.Helper()
	name, err := template()
	if err != nil {
		t.Fatal(err)
	}
	fresh := "t_" + strings.ToLower(rand.Text()[:12])
	if err := admin(fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s", fresh, name)); err != nil {
		t.Fatalf("clone the template database: %v", err)
	}
	t.Cleanup(func() {
		if err := admin(fmt.Sprintf("DROP DATABASE IF EXISTS %s WITH (FORCE)", fresh)); err != nil {
			t.Errorf("drop test database: %v", err)
		}
	})
	return postgres.Config{URL: withDatabase(os.Getenv("DATABASE_URL"), fresh)}
}

// Store opens a store on a fresh Database with up to 16 connections.
func Store(t testing.TB) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), Database(t), 16)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// makeTemplate migrates one database for this test process.
func makeTemplate() (string, error) {
	if os.Getenv("DATABASE_URL") == "" {
		return "", fmt.Errorf("DATABASE_URL %s", advice)
	}
	name := "tmpl_" + strings.ToLower(rand.Text()[:12])
	if err := admin("CREATE DATABASE " + name); err != nil {
		return "", fmt.Errorf("create the template database: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return name, postgres.Migrate(ctx, postgres.Config{URL: withDatabase(os.Getenv("DATABASE_URL"), name)})
}

func admin(statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(ctx) }()
	_, err = c.Exec(ctx, statement)
	return err
}

func withDatabase(raw, name string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	u.Path = "/" + name
	return u.String()
}

// Contents are all tables of a database by name, each as a hash of its rows, so that a
// test can say that nothing has changed.
func Contents(t testing.TB, cfg postgres.Config, except ...string) map[string]string {
	t.Helper()
	c, err := pgx.Connect(t.Context(), cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(t.Context())) }()
	rows, err := c.Query(t.Context(), `SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND NOT c.relname = ANY($1)`, append([]string{""}, except...))
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	contents := map[string]string{}
	for _, name := range names {
		var hash string
		q := fmt.Sprintf(`SELECT count(*) || ' rows ' || md5(coalesce(string_agg(x::text, '|' ORDER BY x::text), '')) FROM %q x`, name)
		if err := c.QueryRow(t.Context(), q).Scan(&hash); err != nil {
			t.Fatal(err)
		}
		contents[name] = hash
	}
	return contents
}
