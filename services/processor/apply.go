package processor

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"sluice/pkg/postgres"
)

// applier applies records, batch by batch. Whoever has records makes one: a worker,
// for the partitions that it claimed, and whoever looks again at records that were
// applied before. It is used by one goroutine.
type applier struct {
	reader
	log *slog.Logger
	now func() time.Time
	// inTx is the store's: one transaction, whole or not at all.
	inTx func(context.Context, func(postgres.Tx) error) error
	// stand is the first step of a transaction: it makes sure that the records may be
	// applied, and says on what ground.
	stand func(context.Context, postgres.Tx, []*record) (ground, error)
	// also, if not nil, is the last step of a transaction.
	also func(context.Context, *batch) error
	// journal: the bodies of what is new are kept.
	journal bool
	// committed hears of each transaction.
	committed func(ctx context.Context, b *batch, took time.Duration)

	// anew, if not nil, has known events read anew.
	anew *Anew

	// lookFirst: most of the last batch was known already.
	lookFirst bool
}

// ground is what a batch stands on.
type ground struct {
	// topicID is the raw topic's. writer is the partition under whose name the batch
	// adds to the books; nobody else does meanwhile.
	topicID [16]byte
	writer  int32
	// applied is how far each partition was applied before; nil: every record was met
	// before.
	applied map[int32]int64
}

// replayed: the record was met before, and is counted in the books.
func (g *ground) replayed(r *record) bool { return g.met(r.place()) }

func (g *ground) met(p postgres.Place) bool {
	return g.applied == nil || p.Offset <= g.applied[p.Partition]
}

// txTimeout bounds one transaction when the database does not even say no. It
// is below the group's rebalance timeout (60 s).
const txTimeout = 45 * time.Second

// settle brings records into the database, in one transaction if it takes them
// all. If it refuses the data of some, halving finds them, and each becomes a dead
// letter. Halves keep the order, so an applied offset never passes a record that
// is not settled.
func (a *applier) settle(ctx context.Context, records []*record) error {
	err := a.transact(ctx, records)
	switch fateOf(err) {
	case done:
		return nil
	case isolate:
		if len(records) == 1 {
			records[0].die(deadRefused, postgres.Refusal(err))
			return a.transact(ctx, records)
		}
		a.log.Warn("the database refuses data, looking for the record", "records", len(records), "error", postgres.Refusal(err))
		half := len(records) / 2
		if err := a.settle(ctx, records[:half]); err != nil {
			return err
		}
		return a.settle(ctx, records[half:])
	default:
		return err
	}
}

// transact is one transaction. ctx's end does not break it: it is whole or not
// at all within txTimeout.
func (a *applier) transact(ctx context.Context, records []*record) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), txTimeout)
	defer cancel()
	began := time.Now()
	var b *batch
	err := errUnreadable
	for errors.Is(err, errUnreadable) { // at most once for each event that is unreadable
		err = a.inTx(ctx, func(tx postgres.Tx) error {
			g, err := a.stand(ctx, tx, records)
			if err != nil {
				return err
			}
			b = &batch{reader: a.reader, ground: g, tx: tx, records: records, books: postgres.Books{}, now: a.now(),
				lookFirst: a.lookFirst, journal: a.journal, anew: a.anew}
			if err := b.apply(ctx); err != nil || a.also == nil {
				return err
			}
			return a.also(ctx, b)
		})
	}
	if err != nil {
		return err
	}
	a.lookFirst = b.known > len(records)/2
	a.committed(ctx, b, time.Since(began))
	return nil
}

// errUnreadable: a body turned out to be unreadable after its event was taken
// over. The transaction starts over without it.
var errUnreadable = errors.New("a body cannot be read")
