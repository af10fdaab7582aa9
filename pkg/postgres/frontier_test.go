package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
)

// transitions is a database whose order_transitions other programs write to.
type transitions struct {
	store *postgres.Store
	pool  *pgxpool.Pool
}

func newTransitions(t *testing.T) transitions {
	t.Helper()
	cfg := testkit.Database(t)
	store, err := postgres.Open(t.Context(), cfg, 8)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	pc, err := pgxpool.ParseConfig(cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	pc.MaxConns = 24
	pool, err := pgxpool.NewWithConfig(t.Context(), pc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return transitions{store: store, pool: pool}
}

type execer interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func insertTransition(ctx context.Context, db execer, shard int16, orderNo, version int64) (id int64, err error) {
	err = db.QueryRow(ctx, `
		INSERT INTO order_transitions (shard, order_no, order_id, version, from_status, to_status, amount, currency,
			paid, refunded, cause_source, cause_event_id, occurred_at)
		VALUES ($1, $2, 'order-' || $2::bigint, $3, 0, 1, 100, 'USD', 0, 0, 'merchant', 'e', 0) RETURNING id`,
		shard, orderNo, version).Scan(&id)
	return id, err
}

// follower reads all shards as a relay does.
type follower struct {
	store    *postgres.Store
	frontier *postgres.Frontier
	after    []postgres.Position
	seen     []postgres.Transition
}

func newFollower(store *postgres.Store) *follower {
	f := &follower{store: store, frontier: store.Frontier()}
	for s := range int16(postgres.Shards) {
		f.after = append(f.after, postgres.Position{Shard: s})
	}
	return f
}

// poll reads once, at most limit rows a shard.
func (f *follower) poll(ctx context.Context, limit int) error {
	frontier, _, err := f.frontier.Advance(ctx)
	if err != nil {
		return err
	}
	rows, err := f.store.ReadTransitions(ctx, f.after, frontier, limit)
	if err != nil {
		return err
	}
	count := map[int16]int{}
	for _, r := range rows {
		count[r.Shard]++
		f.after[r.Shard].After = r.ID
	}
	for s := range f.after {
		if count[int16(s)] < limit {
			f.after[s].After = max(f.after[s].After, frontier-1)
		}
	}
	f.seen = append(f.seen, rows...)
	return nil
}

func (f *follower) ids() []int64 {
	ids := make([]int64, len(f.seen))
	for i, r := range f.seen {
		ids[i] = r.ID
	}
	slices.Sort(ids)
	return ids
}

// O40: ids are handed out before commit.
func TestARowThatCommitsAfterAHigherIDIsNotSkipped(t *testing.T) {
	db, ctx := newTransitions(t), t.Context()
	f := newFollower(db.store)

	early, err := db.pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	low, err := insertTransition(ctx, early, 1, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	high, err := insertTransition(ctx, db.pool, 1, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.poll(ctx, 100); err != nil {
		t.Fatal(err)
	}
	if len(f.seen) != 0 {
		t.Fatalf("id %d was read while %d may still appear below it", high, low)
	}
	if err := early.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := f.poll(ctx, 100); err != nil {
		t.Fatal(err)
	}
	if got, want := f.ids(), []int64{low, high}; !slices.Equal(got, want) {
		t.Fatalf("read ids %v, want %v", got, want)
	}
}

// O40: a gap that a roll-back leaves holds nothing up.
func TestAnIDThatWasRolledBackDoesNotBlock(t *testing.T) {
	db, ctx := newTransitions(t), t.Context()
	f := newFollower(db.store)
	tx, err := db.pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := insertTransition(ctx, tx, 1, 1, 1); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	id, err := insertTransition(ctx, db.pool, 1, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.poll(ctx, 100); err != nil {
		t.Fatal(err)
	}
	if got := f.ids(); !slices.Equal(got, []int64{id}) {
		t.Fatalf("read ids %v, want %d", got, id)
	}
}

// An open transaction that writes something else, and writers of another
// database, do not hold the frontier back.
func TestUnrelatedWritersDoNotHoldTheFrontierBack(t *testing.T) {
	db, other, ctx := newTransitions(t), newTransitions(t), t.Context()
	f := newFollower(db.store)
	for pool, write := range map[*pgxpool.Pool]string{
		db.pool:    `INSERT INTO orders (order_id) VALUES ('open')`,
		other.pool: `SELECT pg_advisory_xact_lock_shared(77, 1)`,
	} {
		tx, err := pool.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
		if _, err := tx.Exec(ctx, write); err != nil {
			t.Fatal(err)
		}
	}
	id, err := insertTransition(ctx, db.pool, 1, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.poll(ctx, 100); err != nil {
		t.Fatal(err)
	}
	if got := f.ids(); !slices.Equal(got, []int64{id}) {
		t.Fatalf("read ids %v, want %d", got, id)
	}
}

// An idle relay costs one small query a poll and takes no ids.
func TestAnIdleFrontierTakesNoIDs(t *testing.T) {
	db, ctx := newTransitions(t), t.Context()
	f := newFollower(db.store)
	last := func() (v int64) {
		if err := db.pool.QueryRow(ctx, `SELECT last_value FROM order_transitions_id_seq`).Scan(&v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	if err := f.poll(ctx, 100); err != nil {
		t.Fatal(err)
	}
	before := last()
	for range 10 {
		if err := f.poll(ctx, 100); err != nil {
			t.Fatal(err)
		}
	}
	if after := last(); after != before {
		t.Fatalf("ten idle polls took %d ids", after-before)
	}
}

// O40, under load: eight writers that lock orders, write versions and wait a
// random time before they commit or roll back, while a reader follows.
func TestNoRowIsSkippedAndOrdersKeepTheirOrderUnderConcurrentWriters(t *testing.T) {
	const writers, orders, rounds = 8, 40, 150
	db, ctx := newTransitions(t), t.Context()
	for no := range orders {
		if _, err := db.pool.Exec(ctx, `INSERT INTO orders (order_id) VALUES ($1)`, fmt.Sprint("order-", no)); err != nil {
			t.Fatal(err)
		}
	}

	var done atomic.Bool
	var wrote atomic.Int64
	g, gctx := errgroup.WithContext(ctx)
	for w := range uint64(writers) {
		g.Go(func() error {
			rnd := rand.New(rand.NewPCG(w, 40))
			for range rounds {
				rollback := rnd.IntN(10) == 0
				n, err := writeBatch(gctx, db.pool, rnd, orders, rollback)
				if err != nil {
					return err
				}
				if !rollback {
					wrote.Add(int64(n))
				}
			}
			return nil
		})
	}
	f := newFollower(db.store)
	followed := make(chan error, 1)
	go func() {
		for {
			last, before := done.Load(), len(f.seen)
			if err := f.poll(ctx, 7); err != nil {
				followed <- err
				return
			}
			if last && len(f.seen) == before {
				followed <- nil
				return
			}
		}
	}()
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	done.Store(true)
	if err := <-followed; err != nil {
		t.Fatal(err)
	}

	ids := f.ids()
	if unique := slices.Compact(slices.Clone(ids)); int64(len(unique)) != wrote.Load() || len(unique) != len(ids) {
		t.Fatalf("read %d rows, %d distinct, of %d written", len(ids), len(unique), wrote.Load())
	}
	version := map[int64]int64{}
	for _, r := range f.seen {
		if r.Version != version[r.OrderNo]+1 {
			t.Fatalf("order %d: version %d came after %d", r.OrderNo, r.Version, version[r.OrderNo])
		}
		version[r.OrderNo] = r.Version
	}
	t.Logf("%d rows of %d orders", len(ids), len(version))
}

// writeBatch moves a few random orders on by one version, as the processor does.
func writeBatch(ctx context.Context, pool *pgxpool.Pool, rnd *rand.Rand, orders int, rollback bool) (int, error) {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	rows, err := tx.Query(ctx, `
		SELECT order_no, version FROM orders WHERE order_id = ANY($1) ORDER BY order_no FOR NO KEY UPDATE`,
		[]string{fmt.Sprint("order-", rnd.IntN(orders)), fmt.Sprint("order-", rnd.IntN(orders)), fmt.Sprint("order-", rnd.IntN(orders))})
	if err != nil {
		return 0, err
	}
	type row struct{ No, Version int64 }
	locked, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	if err != nil {
		return 0, err
	}
	for _, o := range locked {
		if _, err := insertTransition(ctx, tx, int16(o.No%postgres.Shards), o.No, o.Version+1); err != nil {
			return 0, err
		}
		if _, err := tx.Exec(ctx, `UPDATE orders SET version = version + 1 WHERE order_no = $1`, o.No); err != nil {
			return 0, err
		}
		if _, err := tx.Exec(ctx, `SELECT pg_sleep($1)`, rnd.Float64()*0.004); err != nil {
			return 0, err
		}
	}
	if rollback {
		return 0, nil
	}
	return len(locked), tx.Commit(ctx)
}
