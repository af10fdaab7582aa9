package processor

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"sluice/pkg/endpoint"
	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
)

// Again looks again at records that were applied before, without a partition of its
// own: every one counts as met, and what changes in the books is written under
// postgres.ReplayWriter, by one at a time. Processors go on meanwhile; give it no
// record above what they applied. Not safe for concurrent use.
type Again struct {
	apply   applier
	before  func(context.Context, []postgres.Lead, []int64, []postgres.Seen) error
	store   *postgres.Store
	scratch bool
	topicID [16]byte
	counts  AgainCounts
}

// AgainDeps are what it works with.
type AgainDeps struct {
	Store     *postgres.Store
	Endpoints endpoint.Set
	Mode      event.Mode
	Log       *slog.Logger
	Now       func() time.Time
	// Window is postgres.Store.EnsurePartitions' or WindowAt's.
	Window postgres.Window
	// Journal: the journal of raw bodies is kept.
	Journal bool
	// Scratch: the store is a shadow, and nobody else writes there.
	Scratch bool
	// Before, if not nil, hears before each batch where its records lead, by their
	// headers and by what they say now, which orders' sets may have their events, and
	// which events of the ledger they are.
	Before func(ctx context.Context, leads []postgres.Lead, orders []int64, events []postgres.Seen) error
	// Anew, if not nil, has the bytes of known events read anew under the present
	// rules; else known events are duplicates and change nothing.
	Anew *Anew
}

// Anew says which known events are read anew.
type Anew struct {
	// Verdicts are those that an event may have now: Applied, NoChange, Held, Dead. nil:
	// any. Events that state nothing about an order have NoChange.
	Verdicts []order.Verdict
	// Orders are the numbers of orders whose sets may have an event; nil: only where its
	// headers and its new reading lead.
	Orders func(hash [16]byte) []int64
}

func (a *Anew) wants(v order.Verdict) bool {
	return a.Verdicts == nil || slices.Contains(a.Verdicts, v)
}

// mayWant: the event of a record may be one of those that are read anew. dead: the
// record is a dead letter.
func (a *Anew) mayWant(dead bool) bool {
	if dead {
		return a.wants(order.Dead)
	}
	return a.wants(order.NoChange) || a.wants(order.Held) || a.wants(order.Applied)
}

// adds: an event is read anew that no set has.
func (a *Anew) adds(dead bool) bool { return dead || a.wants(order.NoChange) }

// AgainCounts is what became of records that were looked at again.
type AgainCounts struct {
	Records   int64 `json:"records"`
	New       int64 `json:"new"`        // events that were not known
	Mended    int64 `json:"mended"`     // known events that say something else now
	Entered   int64 `json:"entered"`    // known events that state something now and did not before
	Revived   int64 `json:"revived"`    // dead letters that could be read
	Unchanged int64 `json:"unchanged"`  // everything else that could be read
	Dead      int64 `json:"unreadable"` // they cannot be read, or were discarded: nothing changed
	Versions  int64 `json:"versions"`   // of orders, that are published
	Effects   int64 `json:"effects"`    // acts outside that became due
	// Unlearnt payments lead to no order any more; looking once more may find one.
	Unlearnt int64 `json:"unlearnt"`
}

// NewAgain makes one.
func NewAgain(d AgainDeps) *Again {
	a := &Again{store: d.Store, scratch: d.Scratch, before: d.Before}
	a.apply = applier{reader: reader{endpoints: d.Endpoints, window: d.Window, mode: d.Mode}, log: d.Log, now: d.Now, inTx: d.Store.InTx,
		stand: a.stand, journal: d.Journal, committed: a.committed, anew: d.Anew, lookFirst: true}
	return a
}

// Counts are the sums so far.
func (a *Again) Counts() AgainCounts { return a.counts }

// againTries is how often a batch is tried that may succeed later: locks are waited
// for in the database, so this is for what it cuts off.
const againTries = 5

// Look takes records of one topic in, in the order of their offsets, in one
// transaction if the database takes them all. It is whole or not at all; the same
// records again change nothing.
func (a *Again) Look(ctx context.Context, topicID [16]byte, records []kafka.Record) error {
	a.topicID = topicID
	parsed := a.apply.parse(records)
	for _, r := range parsed {
		a.apply.recover(r)
	}
	if a.before != nil {
		if err := a.before(ctx, a.leads(parsed), a.orders(parsed), ledgered(parsed)); err != nil {
			return err
		}
	}
	var err error
	for try := range againTries {
		if err = a.apply.settle(ctx, parsed); err == nil || ctx.Err() != nil {
			return err
		}
		a.apply.log.Warn("records could not be looked at again, trying again", "try", try+1, "records", len(records), "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(try+1) * 200 * time.Millisecond):
		}
	}
	return fmt.Errorf("look at %d records again: %w", len(records), err)
}

// leads are where records lead, by their headers and by what they say now.
func (a *Again) leads(records []*record) (leads []postgres.Lead) {
	for _, r := range records {
		if r.skip || r.dead != "" {
			continue
		}
		if r.event.Order != "" || r.event.Payment != "" {
			leads = append(leads, postgres.Lead{OrderID: r.event.Order, Source: r.event.Source, Payment: r.event.Payment})
		}
		if r.hint || r.event.Mode != a.apply.mode {
			continue
		}
		if a.apply.open(r); r.stated && (r.fact.OrderID != r.event.Order || r.fact.Payment != r.event.Payment) {
			leads = append(leads, postgres.Lead{OrderID: r.fact.OrderID, Source: r.fact.Source, Payment: r.fact.Payment})
		}
	}
	return leads
}

// orders are those whose sets may have the records' events.
func (a *Again) orders(records []*record) (nos []int64) {
	if a.apply.anew == nil || a.apply.anew.Orders == nil {
		return nil
	}
	for _, r := range records {
		if !r.skip && r.event.ID != "" {
			nos = append(nos, a.apply.anew.Orders(r.event.Hash())...)
		}
	}
	return nos
}

// ledgered are the events that the ledger may know.
func ledgered(records []*record) (events []postgres.Seen) {
	for _, r := range records {
		if r.windowed && !r.skip && !r.hint {
			events = append(events, r.seen)
		}
	}
	return events
}

func (a *Again) stand(ctx context.Context, tx postgres.Tx, _ []*record) (ground, error) {
	g := ground{topicID: a.topicID, writer: postgres.ReplayWriter}
	if a.scratch {
		return g, nil
	}
	return g, tx.LockReplayWriter(ctx)
}

func (a *Again) committed(ctx context.Context, b *batch, _ time.Duration) {
	c := &a.counts
	for _, r := range b.records {
		c.Records++
		switch {
		case r.dead != "":
			c.Dead++
		case b.revived[r]:
			c.Revived++
		case r.mended:
			c.Mended++
		case r.entered && r.stands != 0:
			c.Entered++
		case r.entered, b.anew == nil && r.fresh && !r.skip:
			c.New++
		default:
			c.Unchanged++
		}
	}
	c.Versions, c.Effects, c.Unlearnt = c.Versions+int64(b.versions), c.Effects+int64(b.effects), c.Unlearnt+int64(b.unlearnt)
	if b.versions+b.effects > 0 && !a.scratch {
		_ = a.store.WakeRelays(ctx) // only a hint: relays find out by themselves
	}
}
