package postgres_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
)

// What belongs to the live schema must be the same however many shadows are open.
func TestShadowsThatAreOpenAtOnceEachHaveASchemaOfTheirOwnAndNoneIsTheLiveOne(t *testing.T) {
	cfg := testkit.Database(t)
	conn, err := pgx.Connect(t.Context(), cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	live := func() (objects string) {
		t.Helper()
		if err := conn.QueryRow(t.Context(), `SELECT string_agg(o, ' ' ORDER BY o) FROM (
			SELECT relname || relkind::text FROM pg_class WHERE relnamespace = current_schema()::regnamespace
			UNION ALL SELECT tgname || tgrelid::regclass FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE c.relnamespace = current_schema()::regnamespace
		) x (o)`).Scan(&objects); err != nil {
			t.Fatal(err)
		}
		return objects
	}
	before, schemas := live(), map[string]bool{}
	for range 3 {
		s, err := postgres.OpenShadow(t.Context(), cfg, 2)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := s.Close(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		}()
		if s.Schema == "" || schemas[s.Schema] {
			t.Errorf("a shadow was made in the schema %q, beside %v", s.Schema, schemas)
		}
		schemas[s.Schema] = true
	}
	if after := live(); after != before {
		t.Errorf("the live schema was changed from\n%s\nto\n%s", before, after)
	}
}

// A statement that is broken off takes its connection with it: the schema must be
// dropped all the same.
func TestAShadowThatIsBrokenOffLeavesNoSchema(t *testing.T) {
	cfg := testkit.Database(t)
	s, err := postgres.OpenShadow(t.Context(), cfg, 3)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	go stop() // in the middle of one of them
	for err == nil {
		err = s.Bring(ctx, []postgres.Lead{{OrderID: "A-1"}}, nil, nil)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, err := pgx.Connect(t.Context(), cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(t.Context())) }()
	var left int
	if err := c.QueryRow(t.Context(), `SELECT count(*) FROM pg_namespace WHERE nspname = $1`, s.Schema).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d schemas are left, %v", left, err)
	}
}
