package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"sluice/pkg/archive"
)

const day = 24 * time.Hour

// defaultWindow and its bounds, in days. It must be longer than the raw topic's
// retention (30 days) and every provider's own retries and resends (up to 60).
const (
	defaultWindow = 90
	maxWindow     = 3650
)

// Window is how far back processed_events shall reach.
func (c Config) Window() (time.Duration, error) {
	switch {
	case c.WindowDays == 0:
		return defaultWindow * day, nil
	case c.WindowDays < 1 || c.WindowDays > maxWindow:
		return 0, fmt.Errorf("SLUICE_WINDOW is %d; it must be 1 to %d days", c.WindowDays, maxWindow)
	}
	return time.Duration(c.WindowDays) * day, nil
}

// Window is how far back processed_events reaches, by the provider's time.
func (s *Store) Window() time.Duration { return s.window }

// LongestGrace is the longest that a held event waits before a person is asked.
func (s *Store) LongestGrace() time.Duration { return s.graces.longest() }

// Retention is how long what may go is kept.
type Retention struct {
	// Bodies is how long the journal keeps a body; what is there goes if it is 0.
	Bodies time.Duration
	// Transitions is how long published order transitions are kept; 0 is for ever.
	Transitions time.Duration
	// Archive is where raw bodies and order transitions are written before they are
	// dropped; empty: nowhere.
	Archive archive.Dir
}

// slack is how much longer a partition stays than it must: other programs may
// have an hour-old window, and a clock of their own.
const slack = day

// What one statement may take.
const (
	dropPatience = "'1s'" // waiting for others; whoever needs longer is waited for next time
	deleteRows   = 5_000  // rows in one transaction
	deleteRounds = 200
)

// Dropped is what DropBehind did.
type Dropped struct {
	Partitions []string
	// Undated is how many undated events were forgotten.
	Undated int64
	// Hints and Lookups are how many settled hints and answered look-ups were.
	Hints, Lookups int64
	// Unarchived are partitions that stay because they could not be archived, and why.
	Unarchived map[string]error
	// Later: not all is done. Call it again soon.
	Later bool
}

// DropBehind drops the table partitions that nobody needs any more: months of
// processed_events behind the window, days of raw_bodies, and blocks of
// order_transitions of which every row is published and old. Undated events leave
// processed_events a window after they were first seen, hints a window after they
// were settled: no record of theirs is left in the raw topic then.
//
// With an archive, raw bodies and order transitions are written there first, and
// dropped only once that is on disk and was read back; a partition that cannot be
// archived stays (Unarchived). That may take minutes.
//
// No reader or writer waits for it: it detaches concurrently, gives up what is in
// use after a second (Later), and finishes next time what it or a program that
// died began. Only one program at a time does it; the others do nothing.
func (s *Store) DropBehind(ctx context.Context, now time.Time, keep Retention) (Dropped, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return Dropped{}, fmt.Errorf("drop table partitions: %w", err)
	}
	defer conn.Release()
	d := dropper{conn: conn.Conn(), now: now.UTC(), window: s.window, keep: keep}
	err = d.begin(ctx)
	defer d.end(ctx)
	if err == nil && d.alone {
		err = d.drop(ctx)
	}
	if err != nil {
		return d.done, fmt.Errorf("drop table partitions: %w", err)
	}
	return d.done, nil
}

// dropMark is the comment on what is to be dropped: a table of the same name that
// somebody made of a partition, say as a copy, is not.
const dropMark = "sluice: detached, to be dropped"

// dropper is one round.
type dropper struct {
	conn   *pgx.Conn
	now    time.Time
	window time.Duration
	keep   Retention
	alone  bool // it has the lock
	done   Dropped
}

// begin makes the connection's session the one that drops. Locks are the session's,
// for DETACH CONCURRENTLY cannot run in a transaction.
func (d *dropper) begin(ctx context.Context) error {
	if _, err := d.conn.Exec(ctx, `SET lock_timeout = `+dropPatience); err != nil {
		return err
	}
	return d.conn.QueryRow(ctx, `SELECT pg_try_advisory_lock(77, 3)`).Scan(&d.alone)
}

// end gives the connection back as it was, or closes it, and the locks go with it.
func (d *dropper) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, reset := d.conn.Exec(ctx, `RESET lock_timeout`)
	var unlocked error
	if d.alone {
		_, unlocked = d.conn.Exec(ctx, `SELECT pg_advisory_unlock(77, 3)`)
	}
	if reset != nil || unlocked != nil {
		_ = d.conn.Close(ctx)
	}
}

func (d *dropper) drop(ctx context.Context) error {
	there, err := tablePartitions(ctx, d.conn)
	if err != nil {
		return err
	}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(there)) {
		table, suffix := split(name)
		if there[name] == attached {
			behind, err := d.behind(ctx, table, suffix)
			if err != nil || !behind {
				problems = append(problems, err)
				continue
			}
		}
		err := d.remove(ctx, table, name, there[name])
		var unarchived *unarchivedError
		switch {
		case err == nil:
			d.done.Partitions = append(d.done.Partitions, name)
		case errors.As(err, &unarchived):
			if d.done.Unarchived == nil {
				d.done.Unarchived = map[string]error{}
			}
			d.done.Unarchived[name] = unarchived.error
		case inUse(err):
			d.done.Later = true
		default:
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
		}
	}
	for _, f := range [...]struct {
		what, where, table string
		gone               *int64
	}{
		{"undated events", `seen_at < $1`, "processed_events_undated", &d.done.Undated},
		{"settled hints", `settled_at < $1`, "hints", &d.done.Hints},
		{"answered look-ups", `answered >= armed AND due_at < $1`, "lookups", &d.done.Lookups},
	} {
		if err := d.forget(ctx, f.table, f.where, f.gone); err != nil {
			problems = append(problems, fmt.Errorf("forget %s: %w", f.what, err))
		}
	}
	return errors.Join(problems...)
}

// split splits a partition's name into its table's and the rest.
func split(name string) (table, suffix string) {
	for table := range partitionedTables {
		if suffix, ok := strings.CutPrefix(name, table+"_"); ok {
			return table, suffix
		}
	}
	return name, ""
}

// behind says whether nobody needs a partition any more.
func (d *dropper) behind(ctx context.Context, table, suffix string) (bool, error) {
	switch {
	case suffix == undated:
		return false, nil
	case table == "processed_events":
		begin, err := time.Parse(partitionedTables[table], suffix)
		return err == nil && !month(begin, 1).Add(d.window+slack).After(d.now), err
	case table == "raw_bodies":
		begin, err := time.Parse(partitionedTables[table], suffix)
		return err == nil && !begin.Add(day+d.keep.Bodies+slack).After(d.now), err
	case table == "order_transitions" && d.keep.Transitions > 0:
		return d.published(ctx, suffix)
	}
	return false, nil // a set lives as long as its order
}

// published says whether every row of a block of order_transitions is, and is old.
func (d *dropper) published(ctx context.Context, suffix string) (behind bool, err error) {
	block, err := strconv.ParseInt(suffix, 10, 64)
	if err != nil {
		return false, err
	}
	// A whole block of ids later nobody still writes into this one. Every row must
	// lie behind its shard's cursor, and the newest of each shard be old: one probe
	// of the index a shard.
	err = d.conn.QueryRow(ctx, fmt.Sprintf(`
		SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence('order_transitions', 'id')::regclass), 0) >= $1
		   AND NOT EXISTS (
			SELECT FROM relay_shards r CROSS JOIN LATERAL (
				SELECT id, changed_at FROM order_transitions_%d t WHERE t.shard = r.shard ORDER BY id DESC LIMIT 1) newest
			WHERE newest.id > r.cursor OR newest.changed_at > $2)`, block), (block+2)*rowsPerPartition, d.now.Add(-d.keep.Transitions)).Scan(&behind)
	return behind, err
}

// unarchivedError: a partition's rows are not in the archive.
type unarchivedError struct{ error }

// remove brings a partition to its end, from wherever it stands. It is archived while
// its table still has it, so that one that cannot be stays in use, and counted again
// once nobody can write into it.
func (d *dropper) remove(ctx context.Context, table, name string, is found) error {
	if d.keep.Archive == "" || !archived[table] {
		if err := d.detach(ctx, table, name, is); err != nil {
			return err
		}
		return d.exec(ctx, `DROP TABLE `+name)
	}
	m, fresh, err := d.archive(ctx, table, name, false)
	if err != nil {
		return &unarchivedError{err}
	}
	if err := d.detach(ctx, table, name, is); err != nil {
		return err
	}
	if err := d.confirm(ctx, table, name, m, fresh); err != nil {
		return &unarchivedError{err}
	}
	return d.exec(ctx, `DROP TABLE `+name)
}

// detach takes a partition out of its table.
func (d *dropper) detach(ctx context.Context, table, name string, is found) error {
	var statements []string
	switch is {
	case attached:
		statements = append(statements, fmt.Sprintf(`COMMENT ON TABLE %s IS '%s'`, name, dropMark),
			fmt.Sprintf(`ALTER TABLE %s DETACH PARTITION %s CONCURRENTLY`, table, name))
	case detaching:
		statements = append(statements, fmt.Sprintf(`ALTER TABLE %s DETACH PARTITION %s FINALIZE`, table, name)) //nolint:misspell // SQL
	}
	return d.exec(ctx, statements...)
}

func (d *dropper) exec(ctx context.Context, statements ...string) error {
	for _, statement := range statements {
		if _, err := d.conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// forget deletes a table's rows that lie a window behind, a few at a time: they are in
// no partition that has an end. One that came to life again meanwhile stays.
func (d *dropper) forget(ctx context.Context, table, where string, gone *int64) error {
	for range deleteRounds {
		tag, err := d.conn.Exec(ctx, fmt.Sprintf(`
			DELETE FROM %[1]s WHERE %[2]s AND ctid = ANY(ARRAY(SELECT ctid FROM %[1]s WHERE %[2]s LIMIT $2))`, table, where),
			d.now.Add(-d.window), deleteRows)
		if inUse(err) {
			break
		}
		if err != nil {
			return err
		}
		*gone += tag.RowsAffected()
		if tag.RowsAffected() < deleteRows {
			return nil
		}
	}
	d.done.Later = true
	return nil
}

// inUse says whether somebody else is using what was to go, or is finishing
// another partition of the same table.
func inUse(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "55P03" || pg.Code == "55000" || pg.Code == "40P01")
}

// NoPartition says whether a transaction failed for want of a table partition:
// EnsurePartitions makes it.
func NoPartition(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "23514" && pg.ConstraintName == ""
}
