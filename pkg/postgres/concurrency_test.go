package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"sluice/pkg/event"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
)

// connect is a connection of the test's own.
func (d desk) connect() *pgx.Conn {
	d.Helper()
	c, err := pgx.Connect(d.Context(), d.cfg.URL)
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// waiting waits until so many other connections wait for a lock.
func (d desk) waiting(n int64) {
	d.Helper()
	deadline := time.After(30 * time.Second)
	for d.number(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) < n {
		select {
		case <-deadline:
			d.Fatalf("fewer than %d wait", n)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// O37: each input is judged against the order at its turn, and what other paths
// wrote survives.
func TestWritersThatWaitedForAnOrderWriteNothingOld(t *testing.T) {
	d := newDesk(t)
	d.apply(registered("s", 1000), fact("second", "s", "p9", order.KindRefund, 1, 3))
	holder := d.connect()
	tx, err := holder.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM orders WHERE order_id = 's' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for n, write := range []func(){
		func() { d.apply(fact("paid", "s", "p", order.KindPaid, 1000, 2)) },
		func() { d.apply(fact("failed", "s", "p0", order.KindFailed, 1000, 1)) },
		func() { d.apply(fact("stale", "s", "p", order.KindPending, 1000, 0)) }, // what a look-up said seconds ago
		func() { d.apply(fact("refund", "s", "p", order.KindRefund, 400, 4)) },
		func() {
			if _, err := d.Register(t.Context(), at, postgres.Registration{OrderID: "s", Amount: 1000, Currency: "EUR", Reference: "basket 7"}); err != nil {
				t.Error(err)
			}
		},
	} {
		all.Go(write)
		d.waiting(int64(n + 1)) // so that they queue in this order
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	story, err := d.Story(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	if story.Status != order.PartiallyRefunded || story.Paid != 1000 || story.Refunded != 400 || story.Reference != "basket 7" {
		t.Errorf("the order is %v, paid %d, refunded %d, reference %q", story.Status, story.Paid, story.Refunded, story.Reference)
	}
	before := order.StatusNone
	for i, v := range story.History {
		if v.From != before || v.Version != int64(i+1) {
			t.Errorf("version %d leads from %v, after %v", v.Version, v.From, before)
		}
		before = v.To
	}
	if n := d.number(`SELECT n_held FROM orders WHERE order_id = 's'`); n != 1 {
		t.Errorf("%d events are held, want the refund of another payment", n)
	}
}

// O38, third run: PostgreSQL refuses a statement with 40001 and with 40P01.
func TestASerializationFailureIsTriedAgainAndLosesNothing(t *testing.T) {
	for _, code := range []string{"40001", "40P01"} {
		d := newDesk(t)
		_, err := d.connect().Exec(t.Context(), fmt.Sprintf(`
			CREATE SEQUENCE failures;
			CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			  IF nextval('failures') <= 2 THEN RAISE EXCEPTION 'no' USING ERRCODE = '%s'; END IF;
			  RETURN NULL; END $$;
			CREATE TRIGGER fail AFTER INSERT ON order_transitions FOR EACH STATEMENT EXECUTE FUNCTION fail()`, code))
		if err != nil {
			t.Fatal(err)
		}
		d.apply(registered("o", 1000), fact("e", "o", "p", order.KindPaid, 1000, 1))
		d.wants("o", order.Paid, "pending paid")
		d.booked(map[order.Verdict]int64{order.Applied: 1})
	}
}

// What is not in the table of statuses cannot be stored, whoever writes.
func TestAStatusThatIsNotInTheTableCannotBeStored(t *testing.T) {
	d := newDesk(t)
	d.apply(registered("o", 1000))
	c := d.connect()
	known := func(n int) bool { return !strings.Contains(order.Status(n).String(), "(") }
	flag := func(n int) bool { return !strings.Contains(order.Dispute(n).String(), "(") }
	never := func(int) bool { return false }
	for _, column := range []struct {
		update string
		fits   func(int) bool
	}{
		{`UPDATE orders SET status = $1`, known},
		{`UPDATE orders SET dispute = $1`, flag},
		{`INSERT INTO order_transitions SELECT (t).* FROM (SELECT jsonb_populate_record(t, jsonb_build_object('id', t.id + 1000 + $1, 'from_status', $1::int)) AS t FROM order_transitions t LIMIT 1) x`, known},
		{`INSERT INTO order_transitions SELECT (t).* FROM (SELECT jsonb_populate_record(t, jsonb_build_object('id', t.id + 2000 + $1, 'to_status', $1::int)) AS t FROM order_transitions t LIMIT 1) x`,
			func(n int) bool { return known(n) && n != int(order.StatusNone) }},
		{`INSERT INTO order_transitions SELECT (t).* FROM (SELECT jsonb_populate_record(t, jsonb_build_object('id', t.id + 3000 + $1, 'dispute', $1::int)) AS t FROM order_transitions t LIMIT 1) x`, flag},
		{`UPDATE orders SET status = NULL WHERE $1::int IS NOT NULL`, never},
	} {
		for n := -1; n <= 20; n++ {
			_, err := c.Exec(t.Context(), column.update, n)
			var refused *pgconn.PgError
			if fits := column.fits(n); fits && err != nil || !fits && (!errors.As(err, &refused) || refused.Code != "23514" && refused.Code != "23502") {
				t.Errorf("%.40s with %d: %v", column.update, n, err)
			}
		}
	}
}

// O25: what names an event is source, mode and id, with no ambiguous join.
func TestEventsOfDifferentSourcesNeverShareAName(t *testing.T) {
	hashes, keys := map[[16]byte]event.Event{}, map[[16]byte]event.Event{}
	for _, e := range []event.Event{
		{Source: "a", ID: "evt_1"}, {Source: "b", ID: "evt_1"}, {Source: "a", ID: "b:c"}, {Source: "a:b", ID: "c"}, {Source: "a:b:c"}, {ID: "a:b:c"},
		{Source: "a", ID: "live\x00x", Mode: event.Live}, {Source: "a", ID: "x", Mode: event.Live}, {Source: "a", ID: "x", Mode: event.Test},
		{Source: "alive", ID: "x"}, {Source: "a", ID: "livex"},
	} {
		if other, twice := hashes[e.Hash()]; twice {
			t.Errorf("%+v and %+v are one event", e, other)
		}
		if other, twice := keys[e.Key()]; twice {
			t.Errorf("%+v and %+v are one processed event", e, other)
		}
		hashes[e.Hash()], keys[e.Key()] = e, e
	}
}
