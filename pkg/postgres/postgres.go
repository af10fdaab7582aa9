// Package postgres is the store: the only importer of pgx. One file a table; what people
// and tools see of a table is in its _views.go, and what they do to it in its _writes.go.
//
// The path of a fact: apply.go adds facts to the sets of their orders, which route.go
// finds, and folds these; writes.go writes what follows. anew.go puts in what events say
// that are read anew, and shadow.go does all of it beside the live orders.
package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"sluice/pkg/effect"
	"sluice/pkg/postgres/internal/dbgen"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Config says where the database is.
type Config struct {
	URL string `env:"DATABASE_URL,required,notEmpty" json:"-" help:"postgres:// URL or keyword string"`
	// HeldGrace is how long a held event may wait for what it lacks before a
	// person is asked (the default if 0).
	HeldGrace time.Duration `env:"SLUICE_HELD_GRACE" envDefault:"15m" help:"how long a held event may wait before a person is asked"`
	// HeldGraces are other graces by reason, such as "awaiting_order:1h"; a
	// reason that is not in it has HeldGrace, or none where only a person can help.
	HeldGraces map[string]time.Duration `env:"SLUICE_HELD_GRACE_BY_REASON" help:"other graces by reason: awaiting_order:1h,over_refund:0s"`
	// WindowDays is for how many days of provider time processed_events recognises
	// a repeat (the default if 0); see Store.EnsurePartitions.
	WindowDays int `env:"SLUICE_WINDOW" envDefault:"90" help:"for how many days a repeat of an event is recognised"`
}

// Store is the database of one deployment. Safe for concurrent use.
type Store struct {
	pool   *pgxpool.Pool
	graces graces
	window time.Duration
	names  names
	// effects are what changes cause; none unless WithEffects said so.
	effects effect.Set
}

// Check says everything that is wrong with the settings.
func (c Config) Check() error {
	_, graces := c.graces()
	_, window := c.Window()
	var address error
	if c.URL != "" {
		_, address = c.parse()
	}
	return errors.Join(address, graces, window)
}

// parse reads the URL. What is wrong with it is not told: the library's words may
// hold the password.
func (c Config) parse() (*pgxpool.Config, error) {
	pc, err := pgxpool.ParseConfig(c.URL)
	scheme, _, isURL := strings.Cut(c.URL, "://")
	if err != nil || isURL && scheme != "postgres" && scheme != "postgresql" && !strings.Contains(scheme, "=") {
		return nil, errors.New("read DATABASE_URL: it is not a postgres:// URL or keyword string")
	}
	return pc, nil
}

// Tx is one transaction; every write goes through one.
//
// Every transaction takes its locks in this order, so that no two wait for each
// other: partitions, processed_events, names, keys of new orders (sorted),
// payments (sorted), orders (by order_no), lookups (sorted), the rest.
type Tx struct {
	store *Store
	tx    pgx.Tx
	q     dbgen.Querier
	// own are the names this transaction added: nobody else knows them yet.
	own map[string]int16
}

// Open connects with at most conns connections and checks that the server
// answers. The URL's password never appears in an error.
func Open(ctx context.Context, cfg Config, conns int32) (*Store, error) {
	return openIn(ctx, cfg, conns, "")
}

// openIn is Open for the tables of one schema; empty: whatever the settings lead to.
func openIn(ctx context.Context, cfg Config, conns int32, schema string) (*Store, error) {
	pc, err := cfg.parse()
	if err != nil {
		return nil, err
	}
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	graces, _ := cfg.graces()
	window, _ := cfg.Window()
	pc.MaxConns = conns
	rp := pc.ConnConfig.RuntimeParams
	if rp["application_name"] == "" {
		rp["application_name"] = "sluice"
	}
	// A frozen holder must not keep its row locks (KAFKA.md, zombies).
	setDefault(rp, "idle_in_transaction_session_timeout", "10s")
	setDefault(rp, "statement_timeout", "30s")
	setDefault(rp, "lock_timeout", "15s")
	setDefault(rp, "timezone", "UTC")
	// Every statement of a batch finds its rows by key. A plan that was made while
	// its table was small, and kept, must not go on reading the whole table: on a
	// fresh database finding payments cost 3.0 µs a record instead of 1.3, and the
	// more the larger the table (2026-11-30). Where only a scan can answer it is
	// still made; at the cost it then seems to have it would be compiled.
	setDefault(rp, "enable_seqscan", "off")
	setDefault(rp, "jit", "off")
	if schema != "" {
		rp["search_path"] = schema
	}
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("reach database %s:%d/%s: %w", pc.ConnConfig.Host, pc.ConnConfig.Port, pc.ConnConfig.Database, err)
	}
	s := &Store{pool: pool, graces: graces, window: window}
	s.names.forget()
	if schema == "" {
		return s, nil
	}
	var at string // a pooler in between may leave the setting out
	if err = pool.QueryRow(ctx, `SELECT coalesce(current_schema(), '')`).Scan(&at); err == nil && at != schema {
		err = fmt.Errorf("a connection for schema %s works in %q: is there a pooler that leaves search_path out? Connect without it", schema, at)
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	return s, nil
}

func setDefault(m map[string]string, key, value string) {
	if m[key] == "" {
		m[key] = value
	}
}

// Close waits for running transactions and closes every connection.
func (s *Store) Close() { s.pool.Close() }

// Ping says whether the database answers.
func (s *Store) Ping(ctx context.Context) error { return s.pool.Ping(ctx) }

// InTx runs do in one READ COMMITTED transaction: commits if it returns nil,
// rolls back otherwise. do runs again, up to three times in all, if PostgreSQL
// chose it as the victim of a deadlock or a serialization conflict.
func (s *Store) InTx(ctx context.Context, do func(Tx) error) error {
	var err error
	for range 3 {
		err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			return do(Tx{store: s, tx: tx, q: dbgen.New(tx), own: map[string]int16{}})
		})
		if err == nil {
			return nil
		}
		s.names.forget()
		if !victim(err) {
			return err
		}
	}
	return err
}

func victim(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "40001" || pg.Code == "40P01")
}

// Migrate brings the schema to the newest version; several programs may call it
// at once. It also makes the table partitions that will be needed first.
func Migrate(ctx context.Context, cfg Config) error {
	p, done, err := provider(cfg, "")
	if err != nil {
		return err
	}
	defer done()
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrate database: %w", err)
	}
	s, err := Open(ctx, cfg, 1)
	if err != nil {
		return err
	}
	defer s.Close()
	_, err = s.EnsurePartitions(ctx, time.Now())
	return err
}

// ErrSchema: the database's schema is older or newer than this program's.
var ErrSchema = errors.New("database schema differs from this program's; run `sluice migrate`")

// ErrNoSchema: nobody has migrated the database yet.
var ErrNoSchema = errors.New("database schema is not there yet; run `sluice migrate`")

// CheckSchema returns ErrNoSchema or ErrSchema unless every migration was applied.
func CheckSchema(ctx context.Context, cfg Config) error {
	p, done, err := provider(cfg, "")
	if err != nil {
		return err
	}
	defer done()
	there, err := migrated(ctx, cfg)
	if err != nil {
		return fmt.Errorf("read schema version: %w", err)
	}
	if !there {
		return ErrNoSchema
	}
	pending, err := p.HasPending(ctx)
	if err != nil {
		return fmt.Errorf("read schema version: %w", err)
	}
	if pending {
		return ErrSchema
	}
	return nil
}

// migrated says whether any migration was ever begun.
func migrated(ctx context.Context, cfg Config) (there bool, err error) {
	pc, err := cfg.parse()
	if err != nil {
		return false, err
	}
	conn, err := pgx.ConnectConfig(ctx, pc.ConnConfig)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	err = conn.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, goose.DefaultTablename).Scan(&there)
	return there, err
}

// provider migrates the tables of a schema; empty: of whatever the settings lead to.
func provider(cfg Config, schema string) (*goose.Provider, func(), error) {
	pc, err := cfg.parse()
	if err != nil {
		return nil, nil, err
	}
	if schema != "" {
		pc.ConnConfig.RuntimeParams["search_path"] = schema
	}
	db := stdlib.OpenDB(*pc.ConnConfig)
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, nil, err
	}
	locker, err := sessionLocker()
	if err != nil {
		return nil, nil, err
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, dir, goose.WithSessionLocker(locker))
	if err != nil {
		return nil, nil, fmt.Errorf("read migrations: %w", err)
	}
	return p, func() { _ = db.Close() }, nil
}

// Transient says whether a transaction that failed with err may succeed when
// repeated: serialization, deadlock, lock and statement time-outs, lost connections,
// a server that stops or starts. Everything unknown counts as transient; only what
// PostgreSQL calls a fault of the data (classes 22 and 23) does not.
func Transient(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || len(pg.Code) != 5 {
		return true
	}
	if NoPartition(err) {
		return true // no table partition for the row: ours to make, the data is sound
	}
	return pg.Code[:2] != "22" && pg.Code[:2] != "23"
}

// Refusal says why PostgreSQL refused the data, without any of the data.
func Refusal(err error) string {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return "unknown"
	}
	return strings.TrimSpace(fmt.Sprintf("SQLSTATE %s %s %s %s", pg.Code, pg.TableName, pg.ColumnName, pg.ConstraintName))
}
