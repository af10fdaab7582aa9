package harness

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Locker is a transaction of the test's own that stands in the program's way.
type Locker struct {
	conn *pgx.Conn
	tx   pgx.Tx
}

// Lock runs query in a transaction that stays open until Release.
func Lock(t testing.TB, d *Deployment, query string) *Locker {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.Database.URL)
	if err != nil {
		t.Fatalf("reach the test database: %v", err)
	}
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), query); err != nil {
		t.Fatalf("lock by %q: %v", query, err)
	}
	l := &Locker{conn: conn, tx: tx}
	t.Cleanup(l.Release)
	return l
}

// Release rolls the transaction back.
func (l *Locker) Release() {
	_ = l.tx.Rollback(context.Background())
	_ = l.conn.Close(context.Background())
}

// Count is the one number that query answers, in the locker's transaction.
func (l *Locker) Count(query string) (n int64) {
	if err := l.tx.QueryRow(context.Background(), query).Scan(&n); err != nil {
		return -1
	}
	return n
}
