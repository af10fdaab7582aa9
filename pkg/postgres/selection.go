package postgres

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// Selected is a record that is to be looked at again: where it lies, and its bytes
// where the database keeps them.
type Selected struct {
	Place
	// TopicID is a dead letter's topic, which may have been made again since; zero: the
	// raw topic as it is now.
	TopicID [16]byte
	// OrderNo is the order whose set has its event, 0 if none has; Hash is the event's,
	// zero of a dead letter.
	OrderNo                   int64
	Hash                      [16]byte
	Source, EventID, Endpoint string
	AppendedAt                time.Time
	// In is the table that keeps its bytes: held_events, raw_bodies or dead_letters.
	// Empty: none does, the raw topic may have them.
	In      string
	Key     []byte
	Headers []event.Header
	Body    []byte
}

const entryColumns = `e.partition, e.record_offset, NULL::uuid, e.order_no, e.event_hash, n.name, e.event_id, m.name, e.appended_at,
	CASE WHEN h.body IS NULL THEN '' ELSE 'held_events' END, convert_to(e.event_id, 'UTF8'), h.record_headers, h.body`

const selectEntry = `SELECT ` + entryColumns + `
	FROM order_events e JOIN names n ON n.name_no = e.source_no JOIN names m ON m.name_no = e.endpoint_no
	LEFT JOIN held_events h ON h.order_no = e.order_no AND h.event_hash = e.event_hash `

// fromLetters are the dead letters that nobody could take over since, and nobody has
// discarded.
const fromLetters = `FROM dead_letters d JOIN names m ON m.name_no = d.endpoint_no
	WHERE d.revived_at IS NULL AND d.settled_as IS DISTINCT FROM 'discarded' `

const selectLetter = `
	SELECT d.partition, d.record_offset, d.topic_id, 0::bigint, NULL::uuid, '', '', m.name, d.appended_at, 'dead_letters', d.record_key, d.record_headers, d.body
	` + fromLetters

// SelectOrder returns the records of every event in an order's set, the oldest first;
// ErrNoOrder if the order is unknown.
func (s *Store) SelectOrder(ctx context.Context, orderID string) ([]Selected, error) {
	var no int64
	err := s.pool.QueryRow(ctx, `SELECT order_no FROM orders WHERE order_id = $1`, orderID).Scan(&no)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNoOrder
	}
	if err != nil {
		return nil, fmt.Errorf("find order %s: %w", orderID, err)
	}
	return s.selected(ctx, selectEntry+`WHERE e.order_no = $1 AND e.partition >= 0 ORDER BY e.appended_at, e.partition, e.record_offset`, no)
}

// SelectEvent returns the records of the events in sets that have an id, of a source
// or of any (""). It reads the whole table, like FindEvents.
func (s *Store) SelectEvent(ctx context.Context, source, id string) ([]Selected, error) {
	return s.selected(ctx, selectEntry+`WHERE e.event_id = $1 AND e.partition >= 0 AND ($2 = '' OR n.name = $2)
		ORDER BY e.appended_at, e.partition, e.record_offset`, id, source)
}

// SelectHeld returns up to limit records of held events behind one of an earlier
// answer (nil: from the first), of one reason or of any (NoReason).
func (s *Store) SelectHeld(ctx context.Context, reason order.Reason, behind *Selected, limit int) ([]Selected, error) {
	behind = cmp.Or(behind, &Selected{})
	// Each entry is looked up by its key. Without OFFSET 0 PostgreSQL expects one row of
	// the join and hashes both tables whole for every page: 5 s in place of 20 ms where
	// 330,000 are held (2026-12).
	return s.selected(ctx, `SELECT `+entryColumns+`
		FROM held_events h
		JOIN LATERAL (SELECT * FROM order_events WHERE order_no = h.order_no AND event_hash = h.event_hash AND partition >= 0 OFFSET 0) e ON true
		JOIN names n ON n.name_no = e.source_no JOIN names m ON m.name_no = e.endpoint_no
		WHERE ($1 = 0 OR h.reason = $1) AND (h.order_no, h.event_hash) > ($2, $3)
		ORDER BY h.order_no, h.event_hash LIMIT $4`, int16(reason), behind.OrderNo, uuid(behind.Hash), limit)
}

// SelectDeadLetters returns up to limit dead letters behind one of an earlier answer
// (nil: from the first), of an endpoint and a reason or of any (""). What was taken
// over since, or discarded, is none of them.
func (s *Store) SelectDeadLetters(ctx context.Context, endpoint, reason string, behind *Selected, limit int) ([]Selected, error) {
	behind = cmp.Or(behind, &Selected{Place: Place{Partition: -1}})
	return s.selected(ctx, selectLetter+`AND ($1 = '' OR m.name = $1) AND ($2 = '' OR d.reason = $2)
		  AND (d.topic_id, d.partition, d.record_offset) > ($3, $4, $5)
		ORDER BY d.topic_id, d.partition, d.record_offset LIMIT $6`, endpoint, reason, uuid(behind.TopicID), behind.Partition, behind.Offset, limit)
}

// SelectDeadLettersOf returns the dead letters whose key is an event's id, likewise.
func (s *Store) SelectDeadLettersOf(ctx context.Context, id string) ([]Selected, error) {
	return s.selected(ctx, selectLetter+`AND d.record_key = convert_to($1, 'UTF8')
		ORDER BY d.topic_id, d.partition, d.record_offset`, id)
}

// FromJournal puts in the bytes that the journal has of records that have none.
func (s *Store) FromJournal(ctx context.Context, records []Selected) error {
	var hashes [][16]byte
	for i := range records {
		if r := &records[i]; r.In == "" && r.Hash != [16]byte{} {
			hashes = append(hashes, r.Hash)
		}
	}
	if len(hashes) == 0 {
		return nil
	}
	rows, err := s.pool.Query(ctx, `SELECT event_hash, partition, record_offset, record_headers, body FROM raw_bodies
		WHERE event_hash = ANY($1::uuid[]) ORDER BY kept_at DESC`, uuids(hashes))
	if err != nil {
		return fmt.Errorf("read the journal: %w", err)
	}
	var (
		hash          [16]byte
		at            Place
		headers, body []byte
	)
	_, err = pgx.ForEachRow(rows, []any{&hash, &at.Partition, &at.Offset, &headers, &body}, func() error {
		for i := range records {
			if r := &records[i]; r.Hash == hash && r.Place == at && r.In != "held_events" {
				r.In, r.Headers, r.Body = "raw_bodies", nil, bytes.Clone(body)
				if err := json.Unmarshal(headers, &r.Headers); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the journal: %w", err)
	}
	return nil
}

func (s *Store) selected(ctx context.Context, query string, args ...any) (found []Selected, err error) {
	err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL statement_timeout = 0`); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, query, args...)
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (r Selected, err error) {
			var topic, hash pgtype.UUID
			var headers []byte
			err = row.Scan(&r.Partition, &r.Offset, &topic, &r.OrderNo, &hash, &r.Source, &r.EventID, &r.Endpoint, &r.AppendedAt, &r.In, &r.Key, &headers, &r.Body)
			if err == nil && headers != nil {
				err = json.Unmarshal(headers, &r.Headers)
			}
			r.TopicID, r.Hash = topic.Bytes, hash.Bytes
			return r, err
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("select records: %w", err)
	}
	return found, nil
}

// EntryIndex says which orders' sets have events, by their hashes. It takes 16 bytes
// an event.
type EntryIndex []entryAt

type entryAt struct {
	hash    uint64 // its first 8 bytes
	orderNo int64
}

// IndexEntries finds the entries of all sets whose records lie in spans. It reads the
// whole table once: 0.6 s for two million events on two busy cores (2026-11).
func (s *Store) IndexEntries(ctx context.Context, spans []Span) (index EntryIndex, err error) {
	err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL statement_timeout = 0`); err != nil {
			return err
		}
		index, err = indexEntries(ctx, tx, "order_events", spans)
		return err
	})
	return index, wrap("find the entries of a span", err)
}

// IndexEntries is Store's, of the moment of which the shadow is.
func (s *Shadow) IndexEntries(ctx context.Context, spans []Span) (EntryIndex, error) {
	index, err := indexEntries(ctx, s.tx, s.live+".order_events", spans)
	return index, wrap("find the entries of a span", err)
}

func indexEntries(ctx context.Context, q querier, table string, spans []Span) (index EntryIndex, err error) {
	partitions, firsts, lasts := spanColumns(spans)
	rows, err := q.Query(ctx, `
		SELECT e.order_no, e.event_hash FROM `+table+` e
		JOIN (SELECT unnest($1::int[]) AS partition, unnest($2::bigint[]) AS first, unnest($3::bigint[]) AS last) u
		  ON e.partition = u.partition AND e.record_offset BETWEEN u.first AND u.last`, partitions, firsts, lasts)
	if err != nil {
		return nil, err
	}
	var no int64
	var hash [16]byte
	_, err = pgx.ForEachRow(rows, []any{&no, &hash}, func() error {
		index = append(index, entryAt{binary.BigEndian.Uint64(hash[:8]), no})
		return nil
	})
	slices.SortFunc(index, func(a, b entryAt) int { return cmp.Compare(a.hash, b.hash) })
	return index, err
}

// Orders are the numbers of the orders that may have the event.
func (x EntryIndex) Orders(hash [16]byte) (nos []int64) {
	h := binary.BigEndian.Uint64(hash[:8])
	i, _ := slices.BinarySearchFunc(x, h, func(e entryAt, h uint64) int { return cmp.Compare(e.hash, h) })
	for ; i < len(x) && x[i].hash == h; i++ {
		nos = append(nos, x[i].orderNo)
	}
	return nos
}

// ReplayWriter is the partition of the books under whose name a tool writes that looks
// at records again.
const ReplayWriter int32 = -3

// LockReplayWriter makes the transaction the only one that writes under ReplayWriter;
// it waits for another tool's.
func (tx Tx) LockReplayWriter(ctx context.Context) error {
	if _, err := tx.tx.Exec(ctx, `SELECT pg_advisory_xact_lock(77, 6)`); err != nil {
		return fmt.Errorf("wait for another replay to write the books: %w", err)
	}
	return nil
}

// CountSelectedHeld is how many events SelectHeld finds.
func (s *Store) CountSelectedHeld(ctx context.Context, reason order.Reason) (n int64, err error) {
	err = s.pool.QueryRow(ctx, `SELECT count(*) FROM held_events WHERE $1 = 0 OR reason = $1`, int16(reason)).Scan(&n)
	return n, wrap("count held events", err)
}

// CountSelectedDeadLetters is how many letters SelectDeadLetters finds.
func (s *Store) CountSelectedDeadLetters(ctx context.Context, endpoint, reason string) (n int64, err error) {
	err = s.pool.QueryRow(ctx, `SELECT count(*) `+fromLetters+`AND ($1 = '' OR m.name = $1) AND ($2 = '' OR d.reason = $2)`, endpoint, reason).Scan(&n)
	return n, wrap("count dead letters", err)
}
