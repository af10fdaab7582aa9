package processor

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kadm"

	"sluice/pkg/endpoint"
	"sluice/pkg/kafka"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
)

var testEmpty endpoint.Set

func (w *world) exec(statement string, args ...any) {
	w.Helper()
	if _, err := w.db.Exec(statement, args...); err != nil {
		w.Fatalf("%s: %v", statement, err)
	}
}

// quick reopens the store with a short lock time-out.
func (w *world) quick() { w.connect("lock_timeout", "200") }

// patient has the processor wait for a lock as long as its own transactions may take.
func (w *world) patient() { w.connect("lock_timeout", "0", "statement_timeout", "0") }

// connect opens the processor's store anew, with settings: a name and a value each.
func (w *world) connect(settings ...string) {
	w.Helper()
	u, _ := url.Parse(w.database.URL)
	q := u.Query()
	for pair := range slices.Chunk(settings, 2) {
		q.Set(pair[0], pair[1])
	}
	u.RawQuery = q.Encode()
	s, err := postgres.Open(w.Context(), postgres.Config{URL: u.String()}, 16)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(s.Close)
	w.store = s
}

func (w *world) committed() int64 {
	w.Helper()
	offsets, err := w.admin.FetchOffsets(w.Context(), w.kafka.Topic(kafka.Group))
	if err != nil {
		w.Fatal(err)
	}
	sum := int64(0)
	offsets.Each(func(o kadm.OffsetResponse) { sum += max(0, o.At) })
	return sum
}

// payments sends n events that pay n orders, all registered.
func (w *world) payments(first, n int, partitions int32) {
	w.Helper()
	var ids []string
	for i := first; i < first+n; i++ {
		ids = append(ids, fmt.Sprintf("ord_%d", i))
	}
	w.register(1000, ids...)
	for i := first; i < first+n; i++ {
		s := stated{id: fmt.Sprintf("evt_%d", i), order: fmt.Sprintf("ord_%d", i), payment: fmt.Sprintf("pi_%d", i), kind: order.KindPaid, amount: 1000}
		w.produce(w.record(s.event(), int32(i)%partitions))
	}
}

// paidOnce checks that n orders are paid, each by one transition.
func (w *world) paidOnce(n int64) {
	w.Helper()
	for query, want := range map[string]int64{
		`SELECT count(*) FROM orders WHERE status = 2`:                 n,
		`SELECT count(*) FROM order_transitions WHERE to_status = 2`:   n,
		`SELECT count(*) FROM processed_events`:                        n,
		`SELECT coalesce(sum(events), 0) FROM books WHERE verdict = 0`: n,
		`SELECT coalesce(sum(events), 0) FROM books`:                   n,
		`SELECT count(*) FROM dead_letters`:                            0,
		`SELECT count(*) FROM review_items WHERE kind = 'held'`:        0,
	} {
		if got := w.number(query); got != want {
			w.Errorf("%s is %d, want %d", query, got, want)
		}
	}
}

// O33, first run
func TestOffsetsNeverPassARecordThatIsNotInTheDatabase(t *testing.T) {
	w := newWorld(t, 1)
	w.payments(1, 20, 1)
	w.quick()
	tx, err := w.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(`SELECT FROM orders WHERE order_id = 'ord_1' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	p, stop := w.start(small(), w.deps())
	w.until("it is tried twice", func() bool { return testutil.ToFloat64(p.metrics.retries) >= 2 })
	if n := w.committed(); n != 0 {
		t.Errorf("offset %d is committed while the first record waits", n)
	}
	if p.Ready() == nil {
		t.Error("it says that it can work")
	}
	stop() // the consumer ends while the order is locked
	if n := w.committed(); n != 0 {
		t.Errorf("stopping committed offset %d", n)
	}
	_ = tx.Rollback()
	w.start(small(), w.deps())
	w.caughtUp()
	w.paidOnce(20)
}

// O33, second run
func TestAnOutageOfTheDatabaseIsWaitedFor(t *testing.T) {
	w := newWorld(t, 3)
	p, _ := w.start(Config{Workers: 2, Batch: 10, Chores: time.Hour}, w.deps())
	w.payments(1, 100, 3)
	w.until("some are applied", func() bool { return w.number(`SELECT count(*) FROM orders WHERE status = 2`) > 0 })

	other, err := sql.Open("pgx", os.Getenv("DATABASE_URL"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	name := ""
	if err := w.db.QueryRow(`SELECT current_database()`).Scan(&name); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for i := 101; i <= 200; i++ {
		ids = append(ids, fmt.Sprintf("ord_%d", i))
	}
	w.register(1000, ids...)
	admin := func(statement string) {
		t.Helper()
		if _, err := other.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	admin(fmt.Sprintf(`ALTER DATABASE %s ALLOW_CONNECTIONS false`, name))
	admin(fmt.Sprintf(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '%s'`, name))
	for i := 101; i <= 200; i++ {
		s := stated{id: fmt.Sprintf("evt_%d", i), order: fmt.Sprintf("ord_%d", i), payment: fmt.Sprintf("pi_%d", i), kind: order.KindPaid, amount: 1000}
		w.produce(w.record(s.event(), int32(i)%3))
	}
	w.until("it says so", func() bool { return p.Ready() != nil })
	admin(fmt.Sprintf(`ALTER DATABASE %s ALLOW_CONNECTIONS true`, name))
	w.caughtUp()
	w.until("it is ready again", func() bool { return p.Ready() == nil })
	w.paidOnce(200)
}

// O33, third run
func TestACancelledStatementIsNoShutdown(t *testing.T) {
	w := newWorld(t, 1)
	// Every third statement that writes orders is cancelled, twenty times.
	w.exec(`CREATE SEQUENCE cancelled`)
	w.exec(`CREATE FUNCTION cancel() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE n bigint := nextval('cancelled'); BEGIN
		IF n <= 60 AND n % 3 <> 0 THEN RAISE EXCEPTION 'canceling statement due to user request' USING ERRCODE = '57014'; END IF; RETURN NULL; END $$`)
	w.payments(1, 200, 1)
	w.exec(`CREATE TRIGGER cancel BEFORE INSERT ON order_events FOR EACH STATEMENT EXECUTE FUNCTION cancel()`)
	p, _ := w.start(Config{Workers: 1, Batch: 10, Chores: time.Hour}, w.deps())
	w.caughtUp()
	if n := testutil.ToFloat64(p.metrics.retries); n < 20 {
		t.Errorf("only %v transactions were cancelled", n)
	}
	w.paidOnce(200)
}

// O24
func TestAnEventIsTakenOverWithItsWorkOrNotAtAll(t *testing.T) {
	w := newWorld(t, 1)
	w.payments(1, 5, 1)
	w.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not now' USING ERRCODE = '55P03'; END $$`)
	w.exec(`CREATE TRIGGER refuse BEFORE INSERT ON order_transitions FOR EACH STATEMENT EXECUTE FUNCTION refuse()`)
	p, _ := w.start(small(), w.deps())
	w.until("it failed twice", func() bool { return testutil.ToFloat64(p.metrics.retries) >= 2 })
	for _, query := range []string{`SELECT count(*) FROM processed_events`, `SELECT count(*) FROM order_events WHERE partition >= 0`,
		`SELECT count(*) FROM orders WHERE status = 2`, `SELECT count(*) FROM books`} {
		if n := w.number(query); n != 0 {
			t.Errorf("%s is %d after a failure", query, n)
		}
	}
	w.exec(`DROP TRIGGER refuse ON order_transitions`)
	w.caughtUp()
	w.paidOnce(5)
}

func TestACrashBetweenTheDatabaseAndTheOffsetsChangesNothing(t *testing.T) {
	w := newWorld(t, 3)
	w.payments(1, 60, 3)
	_, stop := w.start(small(), w.deps())
	w.caughtUp()
	stop()
	w.paidOnce(60)
	before := w.number(`SELECT max(id) FROM order_transitions`)
	w.rewind() // the offsets of the last batches never reached Kafka
	_, stop = w.start(small(), w.deps())
	w.caughtUp()
	stop()
	w.paidOnce(60)
	if after := w.number(`SELECT max(id) FROM order_transitions`); after != before {
		t.Errorf("%d transitions were added", after-before)
	}
}

func TestAConsumerWhosePartitionWasClaimedByAnotherWritesNothingMore(t *testing.T) {
	w := newWorld(t, 1)
	p, _ := w.start(small(), w.deps())
	w.payments(1, 1, 1)
	w.caughtUp()
	// As if this process had been frozen while another took over.
	old := p.workers[0].claims[0]
	if _, _, err := w.store.ClaimPartition(t.Context(), old.TopicID, w.kafka.Topic(kafka.Raw), 0, "another"); err != nil {
		t.Fatal(err)
	}
	if err := w.store.InTx(t.Context(), func(tx postgres.Tx) error {
		_, err := tx.Advance(t.Context(), []postgres.Claim{old}, []int64{99})
		return err
	}); fateOf(err) != leave {
		t.Errorf("an old claim is worth: %v", err)
	}
	w.payments(2, 10, 1)
	w.caughtUp() // it noticed, joined again and claimed anew
	if n := testutil.ToFloat64(p.metrics.fenced); n != 1 {
		t.Errorf("fenced %v times, want 1", n)
	}
	w.paidOnce(11)
}

// O36
func TestExpiredAndLostOffsetsSkipNothingAndGapsAreReported(t *testing.T) {
	w := newWorld(t, 1)
	w.payments(1, 50, 1)
	_, stop := w.start(small(), w.deps()) // a new group begins at the earliest record
	w.caughtUp()
	stop()
	w.paidOnce(50)

	w.rewind() // the group's offsets are gone, nothing else
	p, stop := w.start(small(), w.deps())
	w.caughtUp()
	stop()
	w.paidOnce(50)
	if n := testutil.CollectAndCount(p.metrics.gaps); n != 0 {
		t.Error("a gap was reported though no record is gone")
	}

	w.exec(`INSERT INTO sweeps (source_no, swept_until, due_at, free_at) SELECT name_no, now(), 'infinity', '-infinity' FROM names LIMIT 1`)
	w.payments(51, 100, 1)
	end := kadm.Offsets{}
	end.AddOffset(w.kafka.Topic(kafka.Raw), 0, 100, -1)
	if _, err := w.admin.DeleteRecords(t.Context(), end); err != nil {
		t.Fatal(err)
	}
	p, _ = w.start(small(), w.deps())
	w.caughtUp()
	w.paidOnce(100) // the first 50, and 50 of the 100
	if n := testutil.ToFloat64(p.metrics.gaps.WithLabelValues(kafka.Expired)); n != 1 {
		t.Errorf("%v gaps counted, want 1", n)
	}
	subject := fmt.Sprintf("%s/0/50-99", w.kafka.Topic(kafka.Raw))
	if n := w.number(`SELECT count(*) FROM review_items WHERE kind = 'offset_gap' AND subject = $1`, subject); n != 1 {
		t.Errorf("no review item for %s", subject)
	}
	// O36: reconciliation picks up the affected period.
	if n := w.number(`SELECT count(*) FROM sweeps WHERE due_at <= now() AND swept_until <= (SELECT date_trunc('hour', max(appended_at)) FROM order_events)`); n != 1 {
		t.Error("what the missing records held is not asked about at the providers")
	}
}

func TestADatabaseRestoredFromABackupIsFilledAgain(t *testing.T) {
	w := newWorld(t, 1)
	w.payments(1, 30, 1)
	_, stop := w.start(small(), w.deps())
	w.caughtUp()
	stop()
	// As it was after ten records.
	w.exec(`UPDATE partitions SET applied_offset = 9`)
	w.exec(`DELETE FROM processed_events WHERE key IN (SELECT key FROM processed_events p WHERE NOT EXISTS (
		SELECT FROM order_events e WHERE e.record_offset BETWEEN 0 AND 9 AND substr(replace(p.key::text, '-', ''), 13, 20) = substr(replace(e.event_hash::text, '-', ''), 1, 20)))`)
	w.exec(`UPDATE orders SET status = 1, paid = 0, version = 1, n_events = 0 FROM order_events e WHERE e.order_no = orders.order_no AND e.record_offset > 9`)
	w.exec(`DELETE FROM order_transitions t USING order_events e WHERE e.order_no = t.order_no AND e.record_offset > 9 AND t.version > 1`)
	w.exec(`DELETE FROM order_events WHERE record_offset > 9`)
	w.exec(`UPDATE books SET events = 10`)
	p, _ := w.start(small(), w.deps())
	w.caughtUp()
	w.until("all are paid again", func() bool { return w.number(`SELECT count(*) FROM orders WHERE status = 2`) == 30 })
	w.paidOnce(30)
	if n := testutil.ToFloat64(p.metrics.gaps.WithLabelValues(kafka.Rewound)); n != 1 {
		t.Errorf("reported %v times, want 1", n)
	}
}

// O48, the consumer's part
func TestStoppingInTheMiddleOfATransactionLeavesItWhole(t *testing.T) {
	w := newWorld(t, 1)
	w.payments(1, 10, 1)
	w.exec(`CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(1); RETURN NULL; END $$`)
	w.exec(`CREATE TRIGGER slow BEFORE INSERT ON order_events FOR EACH STATEMENT EXECUTE FUNCTION slow()`)
	_, stop := w.start(small(), w.deps())
	w.until("the transaction is under way", func() bool {
		return w.number(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`) == 1
	})
	stop()
	w.paidOnce(10) // it was finished, and its offsets committed
	if lag := w.lag(); lag != 0 {
		t.Errorf("lag after a clean stop is %d", lag)
	}
	members, err := w.admin.DescribeGroups(t.Context(), w.kafka.Topic(kafka.Group))
	if err != nil {
		t.Fatal(err)
	}
	if g := members[w.kafka.Topic(kafka.Group)]; g.State != "Empty" {
		t.Errorf("the group is %s after a clean stop", g.State)
	}
}

// O34
func TestAnOrdersEventsInAllPartitionsConvergeUnderRebalances(t *testing.T) {
	const orders, partitions = 200, 12
	w := newWorld(t, partitions)
	random := rand.New(rand.NewPCG(7, 7))
	var (
		ids    []string
		events []stated
	)
	for i := range orders {
		id := fmt.Sprintf("ord_%d", i)
		ids = append(ids, id)
		at := func(kind order.Kind, n int, amount int64) {
			s := stated{id: fmt.Sprintf("evt_%d_%d", i, n), order: id, payment: "pi_" + id, kind: kind, amount: amount, at: now.Add(time.Duration(n-10) * time.Second)}
			if kind == order.KindRefund {
				s.object = fmt.Sprintf("re_%d_%d", i, n)
			}
			if n%3 == 2 {
				s.order = "" // known by its payment only
			}
			events = append(events, s)
		}
		at(order.KindFailed, 1, 1000)
		at(order.KindPaid, 2, 1000)
		at(order.KindRefund, 3, 300)
		at(order.KindRefund, 4, 200+500*int64(i%2))
		at(order.KindRefund, 5, 100)
	}
	half := len(events) / 2
	copies := append(append([]stated{}, events...), events[:half]...)
	random.Shuffle(len(copies), func(i, j int) { copies[i], copies[j] = copies[j], copies[i] })

	_, stopFirst := w.start(Config{Workers: 1, Batch: 50, Chores: time.Hour}, w.deps())
	w.register(1000, ids[:orders/2]...)
	for n, s := range copies {
		w.produce(w.record(s.event(), random.Int32N(partitions)))
		switch n {
		case len(copies) / 4:
			w.start(Config{Workers: 2, Batch: 50, Chores: time.Hour}, w.deps())
		case len(copies) / 2:
			w.register(1000, ids[orders/2:]...)
		case len(copies) * 3 / 4:
			stopFirst()
		}
	}
	w.caughtUp()
	for i, id := range ids {
		var set []order.Entry
		for _, s := range events[i*5 : i*5+5] {
			e := s.event()
			set = append(set, order.Entry{Hash: e.Hash(), Source: e.Source, Kind: s.kind, Time: s.at.UnixMilli(), Payment: s.payment, Object: s.object, Amount: s.amount, Currency: "EUR"})
		}
		want := order.Fold(&order.Registration{Amount: 1000, Currency: "EUR", Time: now.UnixMilli()}, set).State
		if got := w.status(id); got != want.Status {
			t.Errorf("%s is %v, its fold says %v (%s)", id, got, want.Status, w.history(id))
		}
		if got := w.number(`SELECT refunded FROM orders WHERE order_id = $1`, id); got != want.Refunded {
			t.Errorf("%s: %d refunded, its fold says %d", id, got, want.Refunded)
		}
		w.history(id) // versions without gaps
	}
	for query, want := range map[string]int64{
		`SELECT count(*) FROM orders`:                                orders, // no stub is left
		`SELECT count(*) FROM order_events WHERE partition >= 0`:     int64(len(events)),
		`SELECT sum(events) FROM books`:                              int64(len(copies)),
		`SELECT coalesce(sum(events), 0) FROM books WHERE verdict=4`: int64(half),
		`SELECT count(*) FROM payments WHERE NOT linked`:             0,
	} {
		if got := w.number(query); got != want {
			t.Errorf("%s is %d, want %d", query, got, want)
		}
	}
}
