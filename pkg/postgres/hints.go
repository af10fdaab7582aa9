package postgres

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"sluice/pkg/order"
	"sluice/pkg/postgres/internal/dbgen"
)

// Hint is an event that nobody has signed: it says that something may have
// happened, and its provider must be asked what.
type Hint struct {
	// Event is the event's hash, Source and EventID name it.
	Event           [16]byte
	Source, EventID string
	// Endpoint is where it came in, AppendedAt when the broker took it, Place where its
	// record lies in the raw topic.
	Endpoint   string
	AppendedAt time.Time
	Place
	// Target is what the provider must be asked about.
	Target
}

// clocksDiffer is how far apart the clocks of a broker and a reconciler may be: a
// hint counts as older than a look-up only if it is older by more than this.
const clocksDiffer = time.Minute

// soon is how long a hint waits at most for a look-up that is due anyway; what hangs
// may be due in a day.
const soon = 10 * time.Second

// maxArming is later than any arming.
const maxArming = math.MaxInt64

// reconciler is the writing partition of answers in the books.
const reconciler = -2

// HoldHints holds each hint until its provider was asked after it, and says what
// becomes of it, at its place: held, or a duplicate of one that is waiting already, or
// no change if a look-up that was answered began after it was appended.
//
// However often a hint comes it costs one row of hints and one of lookups, and after
// the first only as many writes as there are look-ups: an object that will be asked
// about anyway, and in the same way, is not armed again.
func (tx Tx) HoldHints(ctx context.Context, now time.Time, hints []Hint) ([]order.Verdict, error) {
	verdicts := make([]order.Verdict, len(hints))
	if len(hints) == 0 {
		return verdicts, nil
	}
	names := make([]string, 0, 2*len(hints))
	for _, h := range hints {
		if h.Object == "" {
			return nil, errNoHint
		}
		names = append(names, h.Source, h.Endpoint)
	}
	nos, err := tx.nameNos(ctx, names...)
	if err != nil {
		return nil, err
	}
	about := make([]object, len(hints))
	for i, h := range hints {
		about[i] = object{nos[h.Source], h.Object}
	}
	there, err := tx.lockLookups(ctx, about)
	if err != nil {
		return nil, err
	}
	wanted := map[object]arming{} // the last one's
	for i, h := range hints {
		o := about[i]
		if at := there[o].AnsweredAt; at.Valid && h.AppendedAt.Add(clocksDiffer).Before(at.Time) {
			verdicts[i] = order.NoChange
			continue
		}
		verdicts[i] = order.Held
		wanted[o] = arming{object: o, endpointNo: nos[h.Endpoint], target: h.Target, reviewAt: tx.store.graces.due(order.AwaitingProvider, now)}
	}
	armed := make(map[object]int64, len(wanted))
	var toArm []arming
	for o, w := range wanted {
		if r := there[o]; r.Armed > r.Begun && w.sameAs(r) && r.DueAt.Time.Before(now.Add(soon)) {
			armed[o] = r.Armed
		} else {
			toArm = append(toArm, w)
		}
	}
	if err := tx.lanes(ctx, toArm); err != nil {
		return nil, err
	}
	newly, err := tx.arm(ctx, now, toArm)
	if err != nil {
		return nil, err
	}
	maps.Copy(armed, newly)
	return verdicts, tx.addHints(ctx, now, hints, about, nos, armed, verdicts)
}

// vouches is for how many hints that wait the name of a known order speaks: whoever
// knows one order's name could put it on any number of invented payments.
const vouches = 3

// lanes parts the hints that name something we know from what anybody can have made.
func (tx Tx) lanes(ctx context.Context, hints []arming) error {
	if len(hints) == 0 {
		return nil
	}
	slices.SortFunc(hints, func(a, b arming) int { return compareObjects(a.object, b.object) })
	var ids []string
	payments := map[payment]link{}
	for _, h := range hints {
		if h.target.Payment != "" {
			payments[payment{h.sourceNo, h.target.Payment}] = link{}
		}
		if h.target.Order != "" {
			ids = append(ids, h.target.Order)
		}
	}
	known := map[payment]link{}
	if err := tx.findPayments(ctx, slices.Collect(maps.Keys(payments)), known); err != nil {
		return err
	}
	orders := map[string]int64{}
	if err := tx.findOrders(ctx, ids, orders); err != nil {
		return err
	}
	rows, err := tx.q.CountWaitingHints(ctx, vouches, slices.Collect(maps.Keys(orders)))
	if err != nil {
		return fmt.Errorf("count the hints of orders: %w", err)
	}
	waiting := map[string]int64{}
	for _, r := range rows {
		waiting[r.OrderID] = r.Waiting
	}
	for i := range hints {
		h := &hints[i]
		_, paid := known[payment{h.sourceNo, h.target.Payment}]
		switch named := orders[h.target.Order] != 0; {
		case paid:
			h.lane = LaneHint
		case named && waiting[h.target.Order] < vouches:
			waiting[h.target.Order]++
			h.lane = LaneHint
		default:
			h.lane = LaneStranger
		}
	}
	return nil
}

// sameAs says whether the stored target leads to the same requests. Its time may
// only be that of a receipt.
func (a arming) sameAs(r dbgen.LockLookupsRow) bool {
	t := a.target
	return a.endpointNo == r.EndpointNo && t.Type == r.EventType && t.Order == r.OrderID && t.Payment == r.PaymentID &&
		t.Subject == r.Subject && t.Amount == r.Amount && t.Currency == r.Currency
}

// lockLookups locks the rows of the objects, those that there are.
func (tx Tx) lockLookups(ctx context.Context, about []object) (map[object]dbgen.LockLookupsRow, error) {
	seen := map[object]bool{}
	var sources []int16
	var ids []string
	for _, o := range about {
		if !seen[o] {
			seen[o] = true
			sources, ids = append(sources, o.sourceNo), append(ids, o.id)
		}
	}
	rows, err := tx.q.LockLookups(ctx, sources, ids)
	if err != nil {
		return nil, fmt.Errorf("lock look-ups: %w", err)
	}
	there := make(map[object]dbgen.LockLookupsRow, len(rows))
	for _, r := range rows {
		there[object{r.SourceNo, r.Object}] = r
	}
	return there, nil
}

// addHints enters the hints that are held, and turns those that are waiting already
// into duplicates.
func (tx Tx) addHints(ctx context.Context, now time.Time, hints []Hint, about []object, nos map[string]int16, armed map[object]int64, verdicts []order.Verdict) error {
	type key struct {
		object
		event [16]byte
	}
	first := map[key]int{}
	arg := dbgen.HoldHintsParams{HeldAt: timestamp(now)}
	for i, h := range hints {
		if verdicts[i] != order.Held {
			continue
		}
		k := key{about[i], h.Event}
		verdicts[i] = order.Duplicate // until it turns out that it is new
		if _, again := first[k]; again {
			continue
		}
		first[k] = i
		arg.SourceNos, arg.Objects, arg.EventHashes = append(arg.SourceNos, k.sourceNo), append(arg.Objects, k.id), append(arg.EventHashes, uuid(h.Event))
		arg.Armings, arg.AppendedAt = append(arg.Armings, armed[about[i]]), append(arg.AppendedAt, timestamp(h.AppendedAt))
		arg.RecordOffsets, arg.Partitions = append(arg.RecordOffsets, h.Offset), append(arg.Partitions, h.Partition)
		arg.EndpointNos = append(arg.EndpointNos, nos[h.Endpoint])
		arg.EventIds, arg.EventTypes = append(arg.EventIds, h.EventID), append(arg.EventTypes, h.Type)
		arg.OrderIds, arg.PaymentIds = append(arg.OrderIds, h.Order), append(arg.PaymentIds, h.Payment)
	}
	if len(first) == 0 {
		return nil
	}
	rows, err := tx.q.HoldHints(ctx, arg)
	if err != nil {
		return fmt.Errorf("hold hints: %w", err)
	}
	for _, r := range rows {
		verdicts[first[key{object{r.SourceNo, r.Object}, r.EventHash.Bytes}]] = order.Held
	}
	return nil
}

// settleHints settles the hints that wait for one object and came at an arming up
// to the given one, and moves them in the books.
func (tx Tx) settleHints(ctx context.Context, now time.Time, sourceNo int16, about string, arming int64) (int, error) {
	rows, err := tx.q.SettleHints(ctx, dbgen.SettleHintsParams{Now: timestamp(now), SourceNo: sourceNo, Object: about, Arming: arming})
	if err != nil {
		return 0, fmt.Errorf("settle hints: %w", err)
	}
	moved := Books{}
	for _, r := range rows {
		endpoint, err := tx.nameOf(ctx, r.EndpointNo)
		if err != nil {
			return 0, err
		}
		moved.Add(r.AppendedAt.Time, endpoint, order.Held, -1)
		moved.Add(r.AppendedAt.Time, endpoint, order.NoChange, 1)
	}
	return len(rows), tx.AddToBooks(ctx, [16]byte{}, reconciler, moved)
}
