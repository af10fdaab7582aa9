package dry

import (
	"bytes"
	"cmp"
	"slices"

	"sluice/pkg/effect"
	"sluice/pkg/order"
)

// Outcome is what the tables would look like, beside what they do.
type Outcome struct {
	// Added are the events that are new in sets, by how they stand at the end.
	Added map[order.Judgement]int64
	// Turned are those that the sets had, and that stand otherwise now; Updated those
	// of which another reading counts.
	Turned  map[Turn]int64
	Updated int64
	// Steps are the orders that something would be published of.
	Steps                 map[Step]int64
	Messages, Corrections int64
	Revived               int64              // dead letters that can be read now
	Effects               map[string]Effects // by name
	Reviews               map[string]Reviews // by kind

	// Samples, the first by place, by order id, by key.
	Applied, Held []Event
	Orders        []Order
	Calls         []Call
}

// Turn is how one event stood and how it stands.
type Turn struct{ From, To order.Judgement }

// Step is where an order stood, as published, and where it stands.
type Step struct{ From, To order.Status }

// Effects counts calls of one effect: new ones, and of those that were there those that
// are to be made again (they were withdrawn, or had failed, were given up and are
// implied anew), are not to be made any more, or should not have been.
type Effects struct{ Caused, Again, Withdrawn, Outdated int64 }

// Reviews counts items of one kind that are open now and were not, and the reverse.
type Reviews struct{ Opened, Settled int64 }

// Event is one of those added.
type Event struct {
	Partition       int32
	Offset          int64
	Source, EventID string
	OrderID         string // empty: of a stub
	order.Judgement
}

// Order is one that something would be published of; the cause is its last message's.
type Order struct {
	ID string
	Step
	Messages, Corrections int64
	Source, EventID       string
}

// Call is one of an effect; What is caused, again, withdrawn or outdated.
type Call struct {
	Effect, OrderID, What string
	Key                   effect.Key
}

// Outcome sums up, with n samples of each kind. nameOf is the name that has a number
// in the database.
func (t *Tables) Outcome(n int, nameOf func(int16) string) Outcome {
	o := Outcome{Added: map[order.Judgement]int64{}, Turned: map[Turn]int64{}, Steps: map[Step]int64{}, Effects: map[string]Effects{}, Reviews: map[string]Reviews{}}
	t.events(&o, n, nameOf)
	for _, c := range t.changes {
		one := Order{ID: c.orderID, Step: Step{c.from, c.to}, Messages: c.messages, Corrections: c.corrections, Source: c.causeSource, EventID: c.cause}
		o.Steps[one.Step]++
		o.Messages += c.messages
		o.Corrections += c.corrections
		o.Orders = least(o.Orders, n, one, func(a, b Order) int { return cmp.Compare(a.ID, b.ID) })
	}
	for _, r := range t.effects {
		what := r.what()
		if what == "" {
			continue
		}
		sum := o.Effects[r.Effect]
		*map[string]*int64{caused: &sum.Caused, again: &sum.Again, withdrawn: &sum.Withdrawn, outdated: &sum.Outdated}[what]++
		o.Effects[r.Effect] = sum
		o.Calls = least(o.Calls, n, Call{Effect: r.Effect, OrderID: t.orders[r.OrderNo].OrderID.String, What: what, Key: r.Key.Bytes},
			func(a, b Call) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	}
	for _, l := range t.letters {
		if !l.open {
			o.Revived++
		}
	}
	for k, i := range t.reviews {
		sum := o.Reviews[k.kind]
		switch {
		case i.open && !i.wasOpen:
			sum.Opened++
		case !i.open && i.wasOpen:
			sum.Settled++
		default:
			continue
		}
		o.Reviews[k.kind] = sum
	}
	return o
}

func (t *Tables) events(o *Outcome, n int, nameOf func(int16) string) {
	made := make(map[int16]string, len(t.names))
	for name, no := range t.names {
		made[no] = name
	}
	for no, s := range t.sets {
		for i := range s.entries {
			e := &s.entries[i]
			if k := order.Kind(e.row.Kind); k == order.KindRegistered || k.IsDecision() {
				continue
			}
			is := e.judgement()
			if e.updated {
				o.Updated++
			}
			if !e.fresh {
				if is != e.was {
					o.Turned[Turn{e.was, is}]++
				}
				continue
			}
			o.Added[is]++
			list := &o.Applied
			if is.Verdict == order.Held {
				list = &o.Held
			} else if is.Verdict != order.Applied {
				continue
			}
			*list = least(*list, n, Event{Partition: e.row.Partition, Offset: e.row.RecordOffset, Source: cmp.Or(made[e.row.SourceNo], nameOf(e.row.SourceNo)), EventID: e.row.EventID,
				OrderID: t.orders[no].OrderID.String, Judgement: is},
				func(a, b Event) int {
					return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.EventID, b.EventID))
				})
		}
	}
}

const caused, again, withdrawn, outdated = "caused", "again", "withdrawn", "outdated"

// what became of an effect; empty if nothing did.
func (r *effectRow) what() string {
	state := effect.State(r.State)
	switch {
	case r.fresh && state == effect.Withdrawn:
		return ""
	case r.fresh:
		return caused
	case r.Outdated && !r.wasOutdated:
		return outdated
	case state == effect.Withdrawn && r.wasState != effect.Withdrawn:
		return withdrawn
	case state == effect.Pending && r.wasState != effect.Pending && r.wasState != effect.Leased:
		return again
	}
	return ""
}

// least puts one into a sorted list of the n least.
func least[T any](list []T, n int, one T, compare func(a, b T) int) []T {
	at, _ := slices.BinarySearchFunc(list, one, compare)
	if at >= n {
		return list
	}
	list = slices.Insert(list, at, one)
	return list[:min(len(list), n)]
}
