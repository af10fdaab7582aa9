package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"sluice/pkg/archive"
)

// archived are the tables whose partitions are archived. Of the others nothing is lost
// that people ask for: processed_events holds fingerprints only, and order_events is
// never dropped.
var archived = map[string]bool{"raw_bodies": true, "order_transitions": true}

// archive makes sure that a partition's rows are in the archive, and returns what says so;
// fresh if they were written by this call. A zero manifest: there are no rows.
func (d *dropper) archive(ctx context.Context, table, name string, anew bool) (m archive.Manifest, fresh bool, err error) {
	p := archive.Partition{Table: table, Name: name}
	if err := d.describe(ctx, &p); err != nil {
		return m, false, err
	}
	if !anew {
		if m, kept, err := d.keep.Archive.Kept(p.Origin); err != nil || kept {
			return m, false, err
		}
	}
	m, err = d.keep.Archive.Write(ctx, p, d.now, func(put func([]byte) error) error { return d.stream(ctx, name, put) })
	return m, true, err
}

// describe reads what the archive says about a partition.
func (d *dropper) describe(ctx context.Context, p *archive.Partition) error {
	rows, err := d.conn.Query(ctx, `SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute
		WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum`, p.Name)
	if err != nil {
		return err
	}
	if p.Column, err = pgx.CollectRows(rows, pgx.RowToStructByPos[archive.Column]); err != nil {
		return err
	}
	if err := d.conn.QueryRow(ctx, `SELECT coalesce(pg_get_expr(relpartbound, oid), '') FROM pg_class WHERE oid = $1::text::regclass`, p.Name).Scan(&p.Bounds); err != nil {
		return err
	}
	// A server that does not tell its identifier only costs a second writing.
	var cluster string
	if err := d.conn.QueryRow(ctx, `SELECT system_identifier::text FROM pg_control_system()`).Scan(&cluster); err != nil {
		return ctx.Err()
	}
	return d.conn.QueryRow(ctx, `SELECT $1::text || '/' || (SELECT oid FROM pg_database WHERE datname = current_database()) || '/' || $2::text::regclass::oid`,
		cluster, p.Name).Scan(&p.Origin)
}

// streamRows is how many rows are asked for at a time, so that whoever cannot take them
// leaves no more unread.
const streamRows = 1000

// stream reads a partition row by row, in the order in which they were written: one
// message of the server is in memory at a time.
func (d *dropper) stream(ctx context.Context, name string, put func([]byte) error) error {
	return pgx.BeginTxFunc(ctx, d.conn, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		// It takes as long as the disk does.
		if _, err := tx.Exec(ctx, `SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0;
			SET LOCAL synchronize_seqscans = off; SET LOCAL enable_seqscan = on`); err != nil { //nolint:misspell // SQL
			return err
		}
		if _, err := tx.Exec(ctx, fmt.Sprintf(`DECLARE archived NO SCROLL CURSOR FOR SELECT row_to_json(t)::text FROM ONLY %s t`, name)); err != nil {
			return err
		}
		for more := true; more; {
			rows, err := tx.Query(ctx, fmt.Sprintf(`FETCH %d FROM archived`, streamRows))
			if err != nil {
				return err
			}
			n := 0
			for ; err == nil && rows.Next(); n++ {
				err = put(rows.RawValues()[0])
			}
			rows.Close()
			if err := errors.Join(err, rows.Err()); err != nil {
				return err
			}
			more = n == streamRows
		}
		return nil
	})
}

// confirm makes sure, once nobody can write into a partition any more, that the archive
// has every row: one that came after it was archived is archived now.
func (d *dropper) confirm(ctx context.Context, table, name string, m archive.Manifest, fresh bool) error {
	rows, err := d.count(ctx, name)
	if err != nil || rows == 0 {
		return err
	}
	if !fresh && m.File != "" {
		if err := d.keep.Archive.Verify(ctx, m, nil); err != nil && ctx.Err() == nil {
			m = archive.Manifest{} // damaged, or gone: the rows are still here
		}
	}
	if m.Rows != rows {
		if m, _, err = d.archive(ctx, table, name, true); err == nil && m.Rows != rows {
			err = fmt.Errorf("%d of its %d rows are in the archive", m.Rows, rows)
		}
	}
	return err
}

func (d *dropper) count(ctx context.Context, name string) (n int64, err error) {
	err = pgx.BeginTxFunc(ctx, d.conn, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL statement_timeout = 0`); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `SELECT count(*) FROM ONLY `+name).Scan(&n)
	})
	return n, err
}
