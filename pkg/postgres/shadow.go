package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// Shadow is a scratch copy of the orders of a live store, in a schema of its own of
// the same database. What is applied to it (Shadow.Store) can be held against the
// live state of the moment in which it was opened: of that, and of nothing later, all
// its copies are made. Live tables are only read. Not safe for concurrent use.
type Shadow struct {
	// Store is the copy. Nothing reads what it writes but Differences.
	Store *Store
	// Schema is the scratch schema's name.
	Schema string
	// Applied are the highest offsets applied to the live state, by topic id and partition.
	Applied map[[16]byte]map[int32]int64

	live    string // schema
	oid     uint32 // of the scratch schema
	reader  *pgx.Conn
	tx      pgx.Tx // the snapshot
	keep    bool
	lastNo  int64
	brought []uint64 // a bit for each order by number
}

// ShadowSchemas begin so; a number follows.
const ShadowSchemas = "sluice_shadow_"

// shadowLocks are advisory locks: whoever works in a scratch schema holds the one of
// its number.
const shadowLocks = 78

// OpenShadow makes an empty shadow of the store that cfg leads to. First it drops the
// scratch schemas that killed programs left; one that was kept on purpose stays.
func OpenShadow(ctx context.Context, cfg Config, conns int32) (s *Shadow, err error) {
	pc, err := cfg.parse()
	if err != nil {
		return nil, err
	}
	// The snapshot is held for as long as it takes.
	pc.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = "0"
	pc.ConnConfig.RuntimeParams["timezone"] = "UTC"
	// As in Open: rows are found by key, however young the tables are.
	pc.ConnConfig.RuntimeParams["enable_seqscan"] = "off"
	pc.ConnConfig.RuntimeParams["jit"] = "off"
	// A plan that was made for any array at all took 8 s where one for this array takes
	// 0.3 (2,000 records, 2026-12-01).
	pc.ConnConfig.RuntimeParams["plan_cache_mode"] = "force_custom_plan"
	pc.ConnConfig.RuntimeParams["application_name"] = "sluice shadow"
	s = &Shadow{Applied: map[[16]byte]map[int32]int64{}}
	if s.reader, err = pgx.ConnectConfig(ctx, pc.ConnConfig); err != nil {
		return nil, fmt.Errorf("open database for a shadow: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("make a shadow: %w", err)
			_ = s.Close(context.WithoutCancel(ctx))
			s = nil
		}
	}()
	if err := s.reader.QueryRow(ctx, `SELECT quote_ident(current_schema())`).Scan(&s.live); err != nil {
		return s, err
	}
	if err := s.makeSchema(ctx); err != nil {
		return s, err
	}
	if s.Schema == "" { // what follows would be done to the live tables
		return s, errors.New("no scratch schema was made")
	}
	p, done, err := provider(cfg, s.Schema)
	if err != nil {
		return s, err
	}
	defer done()
	if _, err := p.Up(ctx); err != nil {
		return s, err
	}
	if s.Store, err = openIn(ctx, cfg, conns, s.Schema); err != nil {
		return s, err
	}
	if err := s.snapshot(ctx); err != nil {
		return s, err
	}
	return s, s.prepare(ctx)
}

// makeSchema takes the first free number, and drops what nobody uses any more.
func (s *Shadow) makeSchema(ctx context.Context) error {
	rows, err := s.reader.Query(ctx, `SELECT nspname, coalesce(obj_description(oid, 'pg_namespace'), '') FROM pg_namespace WHERE starts_with(nspname, $1)`, ShadowSchemas)
	if err != nil {
		return err
	}
	there := map[string]bool{}
	var left []string
	var name, comment string
	if _, err := pgx.ForEachRow(rows, []any{&name, &comment}, func() error {
		if there[name] = true; comment != keptMark {
			left = append(left, name)
		}
		return nil
	}); err != nil {
		return err
	}
	for _, name := range left {
		var n int32
		if _, err := fmt.Sscanf(name, ShadowSchemas+"%d", &n); err != nil || name != fmt.Sprint(ShadowSchemas, n) {
			continue // not ours
		}
		alone, err := s.lock(ctx, n)
		if err != nil {
			return err
		}
		if !alone { // somebody works there
			continue
		}
		if err := dropSchema(ctx, s.reader, name); err != nil {
			return err
		}
		there[name] = false
		if _, err := s.reader.Exec(ctx, `SELECT pg_advisory_unlock($1, $2)`, shadowLocks, n); err != nil {
			return err
		}
	}
	for n := int32(1); ; n++ {
		name := fmt.Sprint(ShadowSchemas, n)
		if there[name] {
			continue
		}
		alone, err := s.lock(ctx, n)
		if err != nil {
			return err
		}
		if alone {
			s.Schema = name
			if _, err := s.reader.Exec(ctx, `CREATE SCHEMA `+name); err != nil {
				return err
			}
			return s.reader.QueryRow(ctx, `SELECT to_regnamespace($1)::oid`, name).Scan(&s.oid)
		}
	}
}

func (s *Shadow) lock(ctx context.Context, n int32) (alone bool, err error) {
	err = s.reader.QueryRow(ctx, `SELECT pg_try_advisory_lock($1, $2)`, shadowLocks, n).Scan(&alone)
	return alone, err
}

// snapshot holds the moment of the live state of which everything is copied.
func (s *Shadow) snapshot(ctx context.Context) (err error) {
	if s.tx, err = s.reader.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}); err != nil {
		return err
	}
	if _, err := s.tx.Exec(ctx, `SET LOCAL statement_timeout = 0`); err != nil {
		return err
	}
	if err := s.tx.QueryRow(ctx, `SELECT coalesce(max(order_no), 0) FROM `+s.live+`.orders`).Scan(&s.lastNo); err != nil {
		return err
	}
	rows, err := s.tx.Query(ctx, `SELECT topic_id, partition, applied_offset FROM `+s.live+`.partitions`)
	if err != nil {
		return err
	}
	var topic [16]byte
	var partition int32
	var at int64
	_, err = pgx.ForEachRow(rows, []any{&topic, &partition, &at}, func() error {
		if s.Applied[topic] == nil {
			s.Applied[topic] = map[int32]int64{}
		}
		s.Applied[topic][partition] = at
		return nil
	})
	return err
}

// prepare makes room for rows of any number and time, and copies the few rows that
// everything needs.
func (s *Shadow) prepare(ctx context.Context) error {
	statements := []string{
		// The live relays must not wait for what is written here.
		`DROP TRIGGER order_transitions_writer ON order_transitions`,
		fmt.Sprintf(`ALTER TABLE orders ALTER order_no RESTART WITH %d`, s.lastNo+1),
	}
	for table := range partitionedTables {
		statements = append(statements, fmt.Sprintf(`CREATE UNLOGGED TABLE %[1]s_all PARTITION OF %[1]s DEFAULT`, table))
	}
	for _, statement := range statements {
		if _, err := s.Store.pool.Exec(ctx, statement); err != nil {
			return err
		}
	}
	for table, query := range map[string]string{
		"names":        `SELECT * FROM ` + s.live + `.names`,
		"review_items": fmt.Sprintf(`SELECT * FROM %s.review_items WHERE kind = '%s' AND decision = '%s'`, s.live, ReviewHeld, Link),
		// Where they lie, and whether they may be taken over; nobody reads their bytes here.
		"dead_letters": `SELECT topic_id, partition, record_offset, topic, endpoint_no, reason, ''::text AS detail, ''::bytea AS record_headers, appended_at, created_at,
			settled_at, settled_as FROM ` + s.live + `.dead_letters WHERE revived_at IS NULL`,
	} {
		if _, err := s.copy(ctx, table, query, ""); err != nil {
			return err
		}
	}
	_, err := s.Store.pool.Exec(ctx, `SELECT setval(pg_get_serial_sequence('names', 'name_no')::regclass, (SELECT coalesce(max(name_no), 1) FROM names))`)
	return err
}

// copy brings the rows of a query over the snapshot into a table of the shadow, but
// those that it has, and returns what returning says of those that it had not.
func (s *Shadow) copy(ctx context.Context, table, query, returning string, args ...any) (nos []int64, err error) {
	rows, err := s.tx.Query(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", table, err)
	}
	defer rows.Close()
	var columns []string
	for _, f := range rows.FieldDescriptions() {
		columns = append(columns, f.Name)
	}
	err = pgx.BeginFunc(ctx, s.Store.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `CREATE TEMP TABLE stage ON COMMIT DROP AS SELECT * FROM `+table+` WITH NO DATA`); err != nil {
			return err
		}
		n, err := tx.CopyFrom(ctx, pgx.Identifier{"stage"}, columns, pgx.CopyFromFunc(func() ([]any, error) {
			if !rows.Next() {
				return nil, rows.Err()
			}
			return rows.Values()
		}))
		if err != nil || n == 0 {
			return err
		}
		insert := `INSERT INTO ` + table + ` OVERRIDING SYSTEM VALUE SELECT * FROM stage ON CONFLICT DO NOTHING`
		if returning == "" {
			_, err := tx.Exec(ctx, insert)
			return err
		}
		fresh, err := tx.Query(ctx, insert+` RETURNING `+returning)
		if err != nil {
			return err
		}
		nos, err = pgx.CollectRows(fresh, pgx.RowTo[int64])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("copy %s: %w", table, err)
	}
	return nos, nil
}

// Orders is about how many live orders there are.
func (s *Shadow) Orders() int { return int(s.lastNo) }

// Lead is what leads to an order: its id, or a source's payment.
type Lead struct{ OrderID, Source, Payment string }

// Bring copies the live orders that are led to and those with numbers nos, each once,
// with their sets, the payments of these sets, and the orders these lead to; and of
// events under which bodies they are known.
func (s *Shadow) Bring(ctx context.Context, leads []Lead, nos []int64, events []Seen) error {
	if len(events) > 0 {
		events = sortedByKey(events)
		keys := make([][16]byte, len(events))
		for i, e := range events {
			keys[i] = e.Key
		}
		if _, err := s.copy(ctx, "processed_events", `SELECT * FROM `+s.live+`.processed_events WHERE key BETWEEN $1 AND $2 AND key = ANY($3::uuid[])`, "",
			uuid(keys[0]), uuid(keys[len(keys)-1]), uuids(keys)); err != nil {
			return err
		}
	}
	var ids, sources, payments []string
	for _, l := range leads {
		if l.OrderID != "" {
			ids = append(ids, l.OrderID)
		}
		if l.Payment != "" {
			sources, payments = append(sources, l.Source), append(payments, l.Payment)
		}
	}
	rows, err := s.tx.Query(ctx, `
		SELECT order_no FROM `+s.live+`.orders WHERE order_id = ANY($1::text[])
		UNION SELECT p.order_no FROM (SELECT unnest($2::text[]) AS source, unnest($3::text[]) AS payment_id) u
		JOIN `+s.live+`.names n ON n.name = u.source JOIN `+s.live+`.payments p ON p.source_no = n.name_no AND p.payment_id = u.payment_id`, ids, sources, payments)
	if err == nil {
		var found []int64
		if found, err = pgx.CollectRows(rows, pgx.RowTo[int64]); err == nil {
			nos = append(slices.Clone(nos), found...)
		}
	}
	if err != nil {
		return fmt.Errorf("find orders for the shadow: %w", err)
	}
	if len(payments) > 0 {
		if _, err := s.copy(ctx, "payments", `SELECT p.* FROM (SELECT unnest($1::text[]) AS source, unnest($2::text[]) AS payment_id) u
			JOIN `+s.live+`.names n ON n.name = u.source JOIN `+s.live+`.payments p ON p.source_no = n.name_no AND p.payment_id = u.payment_id`, "", sources, payments); err != nil {
			return err
		}
	}
	for nos = s.missing(nos); len(nos) > 0; nos = s.missing(nos) {
		if nos, err = s.bring(ctx, nos); err != nil {
			return err
		}
	}
	return nil
}

// missing are the numbers whose orders were never brought; now they count as brought.
func (s *Shadow) missing(nos []int64) (fresh []int64) {
	for _, no := range nos {
		if no > s.lastNo {
			continue
		}
		word, bit := no/64, uint64(1)<<(no%64)
		if grow := int(word) + 1 - len(s.brought); grow > 0 {
			s.brought = append(s.brought, make([]uint64, grow)...)
		}
		if s.brought[word]&bit == 0 {
			s.brought[word] |= bit
			fresh = append(fresh, no)
		}
	}
	return fresh
}

// bring copies orders, and returns the orders that their payments lead to.
func (s *Shadow) bring(ctx context.Context, nos []int64) ([]int64, error) {
	if _, err := s.copy(ctx, "orders", `SELECT * FROM `+s.live+`.orders WHERE order_no = ANY($1)`, "", nos); err != nil {
		return nil, err
	}
	if _, err := s.copy(ctx, "order_events", `SELECT * FROM `+s.live+`.order_events WHERE order_no = ANY($1)`, "", nos); err != nil {
		return nil, err
	}
	if _, err := s.copy(ctx, "effects", `SELECT * FROM `+s.live+`.effects WHERE order_no = ANY($1)`, "", nos); err != nil {
		return nil, err
	}
	return s.copy(ctx, "payments", `SELECT p.* FROM (SELECT DISTINCT source_no, payment_id FROM `+s.live+`.order_events
		WHERE order_no = ANY($1) AND payment_id <> '') u JOIN `+s.live+`.payments p USING (source_no, payment_id)`, "order_no", nos)
}

// Close drops the scratch schema, unless it is kept, and lets the moment go.
func (s *Shadow) Close(ctx context.Context) error {
	if s.reader == nil {
		return nil
	}
	defer func() { _ = s.reader.Close(ctx) }()
	if s.Store != nil {
		s.Store.Close()
	}
	if s.tx != nil {
		_ = s.tx.Rollback(ctx)
	}
	if s.Schema == "" || s.keep {
		return nil
	}
	if s.reader.IsClosed() { // a statement that was broken off takes its connection with it
		reader, err := pgx.ConnectConfig(ctx, s.reader.Config())
		if err != nil {
			return fmt.Errorf("drop schema %s: %w", s.Schema, err)
		}
		s.reader = reader
		// And the lock with the connection: the name may be another shadow's by now.
		var ours bool
		if err := reader.QueryRow(ctx, `SELECT to_regnamespace($1)::oid IS NOT DISTINCT FROM $2::oid`, s.Schema, s.oid).Scan(&ours); err != nil || !ours {
			return wrap("drop schema "+s.Schema, err)
		}
	}
	return dropSchema(ctx, s.reader, s.Schema)
}

// Keep leaves the scratch schema there for people to look at; they drop it themselves.
func (s *Shadow) Keep(ctx context.Context) error {
	s.keep = true
	if _, err := s.Store.pool.Exec(ctx, fmt.Sprintf(`COMMENT ON SCHEMA %s IS '%s'`, s.Schema, keptMark)); err != nil {
		return fmt.Errorf("keep schema %s: %w", s.Schema, err)
	}
	return nil
}

const keptMark = "kept by sluice shadow --keep"

// dropSchema drops one of ours: its name needs no quotes.
func dropSchema(ctx context.Context, conn *pgx.Conn, name string) error {
	if _, err := conn.Exec(ctx, `DROP SCHEMA IF EXISTS `+name+` CASCADE`); err != nil {
		return fmt.Errorf("drop schema %s: %w", name, err)
	}
	return nil
}
