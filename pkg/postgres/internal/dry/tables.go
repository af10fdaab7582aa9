// Package dry answers the store's statements without a trace: what they read comes
// from the database and from what was written before, and what they write stays in
// memory. So a dry run is the store's own code on other tables, one file a table.
//
// What no file answers goes to the database, in a transaction that may only read: a
// statement that writes or locks is refused there, and never overlooked.
//
// Memory grows with what would change, not with what was looked at: 50 bytes for
// each new event, and the whole set of each order that would be written.
package dry

import (
	"context"

	"github.com/jackc/pgx/v5/pgtype"

	"sluice/pkg/postgres/internal/dbgen"
)

// Tables are the store's tables as a dry run sees them, over any number of
// transactions. Rows that it makes have numbers below 0. Not safe for concurrent use.
type Tables struct {
	dbgen.Querier
	// undo takes back what the transaction under way wrote.
	undo []func()
	last int64 // number given to an order

	names     map[string]int16
	processed map[[16]byte]int64 // fingerprints

	orders   map[int64]dbgen.LockOrdersRow
	byID     map[string]int64
	sets     map[int64]*set
	payments map[paymentKey]dbgen.Payment
	held     map[entryKey]heldEvent
	changes  map[int64]change
	effects  map[[16]byte]effectRow
	ofOrder  map[int64][][16]byte // keys of effects
	reviews  map[reviewKey]reviewItem
	letters  map[letterKey]letter
	lookups  map[object]dbgen.LockLookupsRow
	hints    map[hintKey]bool // waiting

	transaction
}

// transaction is what only the transaction under way knows.
type transaction struct {
	// What was read and may be written: kept only if it is.
	readOrders  map[int64]dbgen.LockOrdersRow
	readSets    map[int64][]entry
	readEffects map[[16]byte]effectRow
	// cloned are the sets that it may change in place.
	cloned map[int64]bool
	// removed are entries on their way to another order.
	removed map[[16]byte]entry
}

// New is tables in which nothing was written yet.
func New() *Tables {
	return &Tables{
		names: map[string]int16{}, processed: map[[16]byte]int64{},
		orders: map[int64]dbgen.LockOrdersRow{}, byID: map[string]int64{}, sets: map[int64]*set{}, payments: map[paymentKey]dbgen.Payment{},
		held: map[entryKey]heldEvent{}, changes: map[int64]change{}, effects: map[[16]byte]effectRow{}, ofOrder: map[int64][][16]byte{},
		reviews: map[reviewKey]reviewItem{}, letters: map[letterKey]letter{}, lookups: map[object]dbgen.LockLookupsRow{}, hints: map[hintKey]bool{},
	}
}

// Begin begins a transaction that reads from db.
func (t *Tables) Begin(db dbgen.Querier) {
	t.Querier, t.undo = db, t.undo[:0]
	t.transaction = transaction{readOrders: map[int64]dbgen.LockOrdersRow{}, readSets: map[int64][]entry{}, readEffects: map[[16]byte]effectRow{},
		cloned: map[int64]bool{}, removed: map[[16]byte]entry{}}
}

// End ends it, and takes back what it wrote unless that is to be kept.
func (t *Tables) End(keep bool) {
	for i := len(t.undo) - 1; i >= 0 && !keep; i-- {
		t.undo[i]()
	}
	clear(t.undo)
	t.Querier, t.transaction = nil, transaction{}
}

// put writes one row, so that it can be taken back.
func put[K comparable, R any](t *Tables, rows map[K]R, k K, r R) {
	old, was := rows[k]
	t.undo = append(t.undo, func() {
		if was {
			rows[k] = old
		} else {
			delete(rows, k)
		}
	})
	rows[k] = r
}

// number is that of a new order.
func (t *Tables) number() int64 {
	t.last--
	return t.last
}

// known are the numbers that the database may know.
func known(nos []int64) []int64 {
	out := make([]int64, 0, len(nos))
	for _, no := range nos {
		if no > 0 {
			out = append(out, no)
		}
	}
	return out
}

// ListNames puts the names of the dry run last: if the database has one meanwhile, its
// number leads to the name, too.
func (t *Tables) ListNames(ctx context.Context) ([]dbgen.Name, error) {
	rows, err := t.Querier.ListNames(ctx)
	for name, no := range t.names {
		rows = append(rows, dbgen.Name{NameNo: no, Name: name})
	}
	return rows, err
}

// AddNames adds names that the database does not have.
func (t *Tables) AddNames(_ context.Context, names []string) error {
	for _, name := range names {
		if _, ok := t.names[name]; !ok {
			put(t, t.names, name, int16(-1-len(t.names)))
		}
	}
	return nil
}

// KnownProcessedEvents reads what is known of keys, the least and the greatest of
// which are given.
func (t *Tables) KnownProcessedEvents(ctx context.Context, low, high pgtype.UUID, keys []pgtype.UUID) ([]dbgen.KnownProcessedEventsRow, error) {
	rows, err := t.Querier.KnownProcessedEvents(ctx, low, high, keys)
	if err != nil || len(t.processed) == 0 {
		return rows, err
	}
	for _, k := range keys {
		if f, ok := t.processed[k.Bytes]; ok {
			rows = append(rows, dbgen.KnownProcessedEventsRow{Key: k, BodyFingerprint: f})
		}
	}
	return rows, nil
}

// Processed says whether the dry run has entered an event, with this body.
func (t *Tables) Processed(key [16]byte, fingerprint int64) bool {
	f, ok := t.processed[key]
	return ok && f == fingerprint
}

// AddProcessedEvents takes keys in ascending order, and returns those that are new.
func (t *Tables) AddProcessedEvents(ctx context.Context, keys []pgtype.UUID, fingerprints []int64) ([]pgtype.UUID, error) {
	rows, err := t.KnownProcessedEvents(ctx, keys[0], keys[len(keys)-1], keys)
	if err != nil {
		return nil, err
	}
	there := make(map[[16]byte]bool, len(rows))
	for _, r := range rows {
		there[r.Key.Bytes] = true
	}
	fresh := make([]pgtype.UUID, 0, len(keys)-len(rows))
	for i, k := range keys {
		if !there[k.Bytes] {
			put(t, t.processed, k.Bytes, fingerprints[i])
			fresh = append(fresh, k)
		}
	}
	return fresh, nil
}

// AddToBooks: what would be counted is told by what became of the records.
func (t *Tables) AddToBooks(context.Context, dbgen.AddToBooksParams) error { return nil }

// AddRawBodies keeps no bytes.
func (t *Tables) AddRawBodies(_ context.Context, rows []dbgen.AddRawBodiesParams) (int64, error) {
	return int64(len(rows)), nil
}
