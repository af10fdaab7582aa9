package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"sluice/pkg/event"
	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
)

// kept is a store with a connection beside it.
type kept struct {
	testing.TB
	cfg   postgres.Config
	store *postgres.Store
	db    *pgx.Conn
}

func newKept(t testing.TB) *kept {
	t.Helper()
	k := &kept{TB: t, cfg: testkit.Database(t)}
	var err error
	if k.store, err = postgres.Open(t.Context(), k.cfg, 8); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.store.Close)
	k.db = k.connect()
	return k
}

func (k *kept) connect() *pgx.Conn {
	k.Helper()
	c, err := pgx.Connect(k.Context(), k.cfg.URL)
	if err != nil {
		k.Fatal(err)
	}
	k.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func (k *kept) exec(sql string, args ...any) {
	k.Helper()
	if _, err := k.db.Exec(k.Context(), sql, args...); err != nil {
		k.Fatalf("%s: %v", sql, err)
	}
}

func (k *kept) number(sql string, args ...any) (n int64) {
	k.Helper()
	if err := k.db.QueryRow(k.Context(), sql, args...).Scan(&n); err != nil {
		k.Fatalf("%s: %v", sql, err)
	}
	return n
}

func (k *kept) drop(now time.Time, r postgres.Retention) postgres.Dropped {
	k.Helper()
	d, err := k.store.DropBehind(k.Context(), now, r)
	if err != nil {
		k.Fatal(err)
	}
	return d
}

// partitions of a table, attached ones.
func (k *kept) partitions(table string) (names []string) {
	k.Helper()
	rows, err := k.db.Query(k.Context(), `SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = $1::text::regclass AND NOT inhdetachpending ORDER BY 1`, table)
	if err == nil {
		names, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		k.Fatal(err)
	}
	return names
}

// take enters an event in processed_events, and says whether it was known.
func (k *kept) take(id string, at time.Time) bool {
	k.Helper()
	key := event.Event{ID: id, Time: at, TimeRepeats: true, ReceivedAt: at}.Key()
	known := false
	err := k.store.InTx(k.Context(), func(tx postgres.Tx) error {
		m, err := tx.TakeProcessedEvents(k.Context(), []postgres.Seen{{Key: key}}, false)
		_, known = m[key]
		return err
	})
	if err != nil {
		k.Fatal(err)
	}
	return known
}

func TestHintsAndLookUpsGoAWindowAfterTheyWereSettledAndNeverBefore(t *testing.T) {
	k := newKept(t)
	d := desk{t, k.store, k.cfg}
	old, young, now := later.AddDate(0, 0, -100), later.AddDate(0, 0, -80), later
	d.hold(old, hint("e1", "old", old), hint("e2", "waits", old), hint("e3", "young", old))
	for _, l := range d.claimed(old, "a") {
		switch l.Object {
		case "old":
			d.answer(l)
		case "young":
			l.BeganAt = young
			d.answer(l)
		}
	}
	gone := k.drop(now, postgres.Retention{})
	if gone.Hints != 1 || gone.Lookups != 1 || gone.Later {
		t.Errorf("dropped %+v, want one hint and one look-up", gone)
	}
	for _, table := range []string{"hints", "lookups"} {
		if n := k.number(`SELECT count(*) FROM ` + table + ` WHERE object <> 'old'`); n != 2 {
			t.Errorf("%d of %s are left, want what waits and what is young", n, table)
		}
	}
}

func TestWhatLiesBehindTheWindowGoesAndWhatLiesInItStays(t *testing.T) {
	k := newKept(t)
	now := time.Now().UTC()
	old, young := now.AddDate(0, 0, -80), now.AddDate(0, 0, -20)
	k.take("old", old)
	k.take("young", young)
	k.take("undated", time.Time{})
	k.exec(`UPDATE processed_events_undated SET seen_at = $1`, old)
	k.take("undated and new", time.Time{})
	hash := event.Event{ID: "young"}.Hash()
	keep := func(at time.Time) {
		err := k.store.InTx(t.Context(), func(tx postgres.Tx) error {
			return tx.KeepRawBodies(t.Context(), []postgres.RawBody{{EventHash: hash, KeptAt: at, Place: postgres.Place{Partition: 1, Offset: 7},
				Headers: []event.Header{{Name: "h", Value: []byte{0, 255}}}, Body: []byte("body\x00")}})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	keep(now)
	keep(now.AddDate(0, 0, 2))
	later := now.AddDate(0, 0, 62)
	if d := k.drop(now, postgres.Retention{Bodies: 24 * time.Hour}); len(d.Partitions) != 0 || d.Undated != 0 {
		t.Errorf("dropped %+v though all is young", d)
	}
	if _, err := k.store.EnsurePartitions(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	d := k.drop(later, postgres.Retention{Bodies: 61 * 24 * time.Hour})
	if d.Undated != 1 || d.Later {
		t.Errorf("dropped %+v, want one undated event gone and all done", d)
	}
	if k.take("young", young); k.number(`SELECT count(*) FROM processed_events`) != 2 {
		t.Errorf("%d events are known, want the young one and the undated one", k.number(`SELECT count(*) FROM processed_events`))
	}
	if !slices.Contains(d.Partitions, "processed_events_"+old.Format("2006_01")) {
		t.Errorf("dropped %v, and not the old month", d.Partitions)
	}
	bodies, err := k.store.RawBodies(t.Context(), hash)
	if err != nil || len(bodies) != 2 || string(bodies[0].Body) != "body\x00" || bodies[0].Offset != 7 || string(bodies[0].Headers[0].Value) != "\x00\xff" {
		t.Errorf("bodies %+v, %v", bodies, err)
	}
	k.drop(later, postgres.Retention{})
	if bodies, err = k.store.RawBodies(t.Context(), hash); err != nil || len(bodies) != 0 {
		t.Errorf("with the journal off there are bodies %+v, %v", bodies, err)
	}
	if got := k.partitions("order_events"); len(got) == 0 {
		t.Error("sets went, and they live as long as their orders")
	}
}

// A writer whose statements wait at most this long for a lock, so that one that
// waits longer fails; a little less than DropBehind waits itself.
const lockPatience = "800ms"

// write enters events of this month until stop is closed; a wait for a lock ends it.
func (k *kept) write(stop <-chan struct{}, n *atomic.Int64) <-chan error {
	c := k.connect()
	ended := make(chan error, 1)
	go func() {
		ended <- func() error {
			if _, err := c.Exec(k.Context(), `SET lock_timeout = '`+lockPatience+`'`); err != nil {
				return err
			}
			for {
				select {
				case <-stop:
					return nil
				default:
				}
				at := time.Now()
				key := event.Event{ID: fmt.Sprint("w", n.Add(1)), Time: at, TimeRepeats: true, ReceivedAt: at}.Key()
				if _, err := c.Exec(k.Context(), `INSERT INTO processed_events (key, body_fingerprint) VALUES ($1, 1)`, key); err != nil {
					return err
				}
			}
		}()
	}()
	return ended
}

func TestDroppingAndMakingPartitionsWhileTheTableIsReadBlocksNoWriter(t *testing.T) {
	k := newKept(t)
	now := time.Now().UTC()
	later := now.AddDate(0, 0, 62)
	reader := k.connect()
	begin := func() pgx.Tx {
		tx, err := reader.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), `SELECT count(*) FROM processed_events`); err != nil {
			t.Fatal(err)
		}
		return tx
	}
	reading := begin()
	before := k.partitions("processed_events")
	var n atomic.Int64
	stop := make(chan struct{})
	ended := []<-chan error{k.write(stop, &n), k.write(stop, &n)}

	if _, err := k.store.EnsurePartitions(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	made, was := k.partitions("processed_events"), n.Load()
	if len(made) <= len(before) {
		t.Errorf("months %v while the table is read, before %v", made, before)
	}
	if d := k.drop(later, postgres.Retention{}); !d.Later || slices.ContainsFunc(d.Partitions, func(p string) bool { return p[:9] == "processed" }) {
		t.Errorf("dropped %+v though a reader holds the table", d)
	}
	if n.Load() == was {
		t.Error("no event was entered while partitions waited to be dropped")
	}
	// What was begun is not given up, and comes to its end with the reader's.
	if d := k.drop(later, postgres.Retention{}); !d.Later {
		t.Errorf("dropped %+v though a reader holds the table", d)
	}
	if err := reading.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for d := k.drop(later, postgres.Retention{}); d.Later; d = k.drop(later, postgres.Retention{}) {
	}
	if left := k.partitions("processed_events"); slices.Contains(left, before[0]) || len(left) >= len(made) {
		t.Errorf("months left: %v", left)
	}
	if left := k.number(`SELECT count(*) FROM pg_class WHERE relname = $1`, before[0]); left != 0 {
		t.Errorf("%s was detached and not dropped", before[0])
	}
	close(stop)
	for _, e := range ended {
		if err := <-e; err != nil {
			t.Errorf("a writer had to wait: %v", err)
		}
	}

	// That this test can fail: a plain DETACH makes a writer wait for the reader.
	reading = begin()
	defer func() { _ = reading.Rollback(context.Background()) }()
	stop = make(chan struct{})
	defer close(stop)
	stuck := k.write(stop, &n)
	k.exec(`SET lock_timeout = '20s'`)
	detached := make(chan error, 1)
	go func() {
		_, err := k.db.Exec(t.Context(), `ALTER TABLE processed_events DETACH PARTITION `+made[len(made)-2])
		detached <- err
	}()
	var pg *pgconn.PgError
	if err := <-stuck; !errors.As(err, &pg) || pg.Code != "55P03" {
		t.Errorf("beside a plain DETACH the writer got %v", err)
	}
	_ = reading.Rollback(t.Context())
	if err := <-detached; err != nil {
		t.Errorf("the plain DETACH: %v", err)
	}
}

func TestWhatAProgramThatDiedLeftDetachedIsDroppedAndNothingElseOfThatName(t *testing.T) {
	k := newKept(t)
	now := time.Now().UTC()
	first := k.partitions("processed_events")[0]
	k.exec(`COMMENT ON TABLE ` + first + ` IS 'sluice: detached, to be dropped'`)
	k.exec(`ALTER TABLE processed_events DETACH PARTITION ` + first + ` CONCURRENTLY`)
	k.exec(`CREATE TABLE processed_events_2019_01 (LIKE processed_events INCLUDING ALL)`)
	k.exec(`CREATE TABLE order_events_20190101 AS SELECT * FROM order_events`)
	if d := k.drop(now, postgres.Retention{}); !slices.Contains(d.Partitions, first) {
		t.Errorf("dropped %+v, want %s", d, first)
	}
	if n := k.number(`SELECT count(*) FROM pg_class WHERE relname IN ('processed_events_2019_01', 'order_events_20190101')`); n != 2 {
		t.Errorf("%d of 2 tables that are not ours are left", n)
	}
	// Within a window made wider, the month comes back, empty.
	if w, err := k.store.EnsurePartitions(t.Context(), now); err != nil || k.partitions("processed_events")[0] != first {
		t.Errorf("window %v, months %v: %v", w, k.partitions("processed_events"), err)
	}
}

func TestAMonthThatIsBeingDetachedIsOutsideTheWindow(t *testing.T) {
	k := newKept(t)
	now := time.Now().UTC()
	first := k.partitions("processed_events")[0]
	reader := k.connect()
	reading, err := reader.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reading.Rollback(context.Background()) }()
	if _, err := reading.Exec(t.Context(), `SELECT count(*) FROM processed_events`); err != nil {
		t.Fatal(err)
	}
	k.exec(`SET lock_timeout = '100ms'`)
	if _, err := k.db.Exec(t.Context(), `ALTER TABLE processed_events DETACH PARTITION `+first+` CONCURRENTLY`); err == nil {
		t.Fatal("the partition was detached under its reader")
	}
	w, err := k.store.EnsurePartitions(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	if w.From.Day() != 1 || !w.Contains(w.From) || "processed_events_"+w.From.AddDate(0, -1, 0).Format("2006_01") != first {
		t.Errorf("window %v to %v while %s goes", w.From, w.Before, first)
	}
	k.take("at its edge", w.From)
}

func TestOnlyOneProgramAtATimeDropsPartitions(t *testing.T) {
	k := newKept(t)
	later := time.Now().AddDate(1, 0, 0)
	k.exec(`SELECT pg_advisory_lock(77, 3)`)
	if d := k.drop(later, postgres.Retention{}); len(d.Partitions) != 0 {
		t.Errorf("dropped %+v though another program does it", d)
	}
	k.exec(`SELECT pg_advisory_unlock(77, 3)`)
	for range 2 { // and the lock is given back
		if d := k.drop(later, postgres.Retention{}); d.Later {
			t.Errorf("dropped %+v", d)
		}
	}
	if got := k.partitions("processed_events"); len(got) != 1 {
		t.Errorf("a year later there are %v", got)
	}
	if n := k.number(`SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 77 AND objid = 3
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`); n != 0 {
		t.Errorf("%d locks were left", n)
	}
}

func TestOrderTransitionsGoOnlyWhenAllArePublishedAndOld(t *testing.T) {
	k := newKept(t)
	now := time.Now().UTC()
	k.exec(`INSERT INTO order_transitions (id, shard, order_no, order_id, version, from_status, to_status, amount, currency, paid, refunded, cause_source, cause_event_id, occurred_at, changed_at)
		SELECT n, n % 2, n, n::text, 1, 0, 1, 1, 'EUR', 0, 0, 's', 'e', 0, $1::timestamptz FROM generate_series(1, 640) n`, now)
	var (
		keep  = postgres.Retention{Transitions: 24 * time.Hour}
		later = now.AddDate(0, 0, 2)
		stays = func(why string, at time.Time, r postgres.Retention) {
			t.Helper()
			k.drop(at, r)
			if n := k.number(`SELECT count(*) FROM order_transitions`); n != 640 {
				t.Fatalf("%s, and %d of 640 are left", why, n)
			}
		}
	)
	publish := func(shards string) {
		k.exec(`UPDATE relay_shards r SET cursor = coalesce((SELECT max(id) FROM order_transitions t WHERE t.shard = r.shard), 0) WHERE shard ` + shards)
	}
	publish(`>= 0`)
	k.exec(`SELECT setval('order_transitions_id_seq', 150000000)`)
	stays("ids of the block are still young", later, keep)
	k.exec(`SELECT setval('order_transitions_id_seq', 250000000)`)
	stays("they are kept for ever", later, postgres.Retention{})
	stays("they are young", now, keep)
	k.exec(`UPDATE relay_shards SET cursor = cursor - 2 WHERE shard = 1`)
	stays("one is not published", later, keep)
	publish(`= 1`)
	if _, err := k.store.EnsurePartitions(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if d := k.drop(later, keep); !slices.Equal(d.Partitions, []string{"order_transitions_0"}) && !slices.Contains(d.Partitions, "order_transitions_0") {
		t.Errorf("dropped %+v", d)
	}
	// Ids go on in the blocks that there are.
	k.exec(`INSERT INTO order_transitions (shard, order_no, order_id, version, from_status, to_status, amount, currency, paid, refunded, cause_source, cause_event_id, occurred_at)
		VALUES (1, 1, '1', 2, 0, 1, 1, 'EUR', 0, 0, 's', 'e', 0)`)
}

func TestAWindowNobodyCanMeanIsRefused(t *testing.T) {
	for _, days := range []int{-1, 3651} {
		if err := (postgres.Config{WindowDays: days}).Check(); err == nil {
			t.Errorf("a window of %d days was accepted", days)
		}
	}
	if err := (postgres.Config{}).Check(); err != nil {
		t.Errorf("the default is refused: %v", err)
	}
}

// BenchmarkDropMonth drops a month of a million processed events.
func BenchmarkDropMonth(b *testing.B) {
	for range b.N {
		b.StopTimer()
		k := newKept(b)
		now := time.Now().UTC()
		at := now.AddDate(0, 0, -80)
		k.exec(`INSERT INTO processed_events (key, body_fingerprint)
			SELECT (lpad(to_hex($1::bigint + n), 12, '0') || substr(md5(n::text), 1, 20))::uuid, n FROM generate_series(1, 1000000) n`, at.UnixMilli())
		b.StartTimer()
		if d := k.drop(now.AddDate(0, 0, 62), postgres.Retention{}); d.Later {
			b.Error("the month is in use")
		}
	}
}
