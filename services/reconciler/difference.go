package reconciler

import (
	"cmp"
	"fmt"
	"time"

	"sluice/pkg/kafka"
	"sluice/pkg/lookup"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/webhook"
)

// DriftKind is how a provider's truth and ours differ.
type DriftKind string

// How they can.
const (
	MissingHere  DriftKind = "missing_here"  // the provider states what we were never told
	MissingThere DriftKind = "missing_there" // the provider knows no such payment
	OtherAmount  DriftKind = "other_amount"  // both state it, with other money
	OtherStatus  DriftKind = "other_status"  // we say that it was paid, the provider does not
	OtherRefunds DriftKind = "other_refunds" // we say that more was refunded
	NotApplied   DriftKind = "not_applied"   // we were told, and it is held
)

// Stated is one fact as one side states it.
type Stated struct {
	Fact     order.Kind `json:"fact"`
	Object   string     `json:"object,omitempty"`
	Amount   int64      `json:"amount"` // minor units of Currency
	Currency string     `json:"currency,omitempty"`
	// Verdict and Reason say what became of it here.
	Verdict string `json:"verdict,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// Difference is one thing in which they differ, with what each side says.
type Difference struct {
	Kind    DriftKind `json:"kind"`
	Source  string    `json:"source"`
	Order   string    `json:"order,omitempty"`
	Payment string    `json:"payment"`
	Event   string    `json:"event,omitempty"` // the provider's, where it lists them
	There   []Stated  `json:"there"`
	Here    []Stated  `json:"here"`

	records []kafka.Record // what makes up for it
}

// Feedable says whether feeding makes up for it.
func (d Difference) Feedable() bool { return len(d.records) > 0 }

// weigh holds what the provider states, in its list or of a payment (then l is zero),
// against what we were told.
func (d *comparison) weigh(facts []webhook.Reading, told postgres.Told, l listed) error {
	for _, f := range facts {
		if l.record != nil && f.Currency == "" && told.Events[l.key.Hash] {
			continue // a hint that came in; its look-up is another's business
		}
		kind := DriftKind("")
		switch set := about(told, f); lookup.Knows(set, f) {
		case lookup.Missing:
			if (f.Fact == order.KindFailed || f.Fact == order.KindCancelled) && lookup.Knows(set, webhook.Reading{Fact: order.KindPaid, Payment: f.Payment}) != lookup.Missing {
				continue // that it was paid here is asked about by itself
			}
			kind = MissingHere
		case lookup.Differs:
			kind = OtherAmount
		case lookup.Known:
			if held(told, f) {
				kind = NotApplied
			}
		}
		if kind == "" {
			continue
		}
		out := Difference{Kind: kind, Source: d.name, Order: f.Order, Payment: f.Payment, There: stated(f), Here: here(told, f)}
		if l.record != nil {
			out.Event = l.id
		}
		switch {
		case kind != MissingHere:
		case l.record != nil:
			out.records = []kafka.Record{*l.record}
		default:
			var err error
			if out.records, err = d.looked(f); err != nil {
				return err
			}
		}
		if out.Order == "" {
			out.Order = orderOf(told, f)
		}
		d.add(out)
	}
	return nil
}

// looked is a fact of an object as a look-up of it would have been written.
func (d *comparison) looked(f webhook.Reading) ([]kafka.Record, error) {
	if f.Subject == "" {
		f.Subject = cmp.Or(f.Payment, f.Order)
	}
	out, _, err := records(d.account.endpoint, []webhook.Reading{f}, d.owner.deps.Now())
	return out, err
}

// add adds a difference once, however often it was met.
func (d *comparison) add(x Difference) {
	if d.seen == nil {
		d.seen = map[string]bool{}
	}
	key := fmt.Sprintf("%s %s %s %v", x.Kind, x.Order, x.Payment, x.There)
	if !d.seen[key] {
		d.seen[key] = true
		d.Differences = append(d.Differences, x)
	}
}

// weighOurs holds what we say of a payment against all that the provider says of it.
func (d *comparison) weighOurs(orderID, payment string, theirs []webhook.Reading, mine postgres.Told) {
	set := entries(theirs)
	x := Difference{Source: d.name, Order: orderID, Payment: payment, Here: all(mine)}
	for _, f := range theirs {
		x.There = append(x.There, stated(f)...)
	}
	for _, f := range mine.Facts {
		if f.Kind == order.KindPaid && f.Verdict == order.Applied && lookup.Knows(set, webhook.Reading{Fact: f.Kind, Payment: payment}) == lookup.Missing {
			x.Kind = OtherStatus
			d.add(x)
			return
		}
	}
	ours, _ := lookup.Refunded(mine.Entries(), payment)
	if said, _ := lookup.Refunded(set, payment); ours > said {
		x.Kind = OtherRefunds
		d.add(x)
	}
}

// confirmed says whether the lists state all of what we say of a payment in a span.
func confirmed(theirs []webhook.Reading, mine postgres.Told, span lookup.Span) bool {
	set := entries(theirs)
	told := 0
	for _, f := range mine.Facts {
		at := time.UnixMilli(f.Time)
		if f.Time <= 0 {
			at = f.AppendedAt
		}
		if !span.Contains(at) || !decides(f.Kind) {
			continue
		}
		told++
		if lookup.Knows(set, webhook.Reading{Fact: f.Kind, Payment: f.Payment, Object: f.Object, Amount: f.Amount, Currency: f.Currency}) == lookup.Missing {
			return false
		}
	}
	return told > 0 || len(theirs) > 0
}

// target is how a payment of ours is asked about.
func target(payment string, mine postgres.Told) lookup.Target {
	t := lookup.Target{Object: payment, Payment: payment}
	for _, f := range mine.Facts {
		t.Order = cmp.Or(t.Order, f.OrderID)
		if f.Kind == order.KindPaid || t.Currency == "" {
			t.Amount, t.Currency = f.Amount, f.Currency
		}
		if t.Time.IsZero() && f.Time > 0 {
			t.Time = time.UnixMilli(f.Time)
		}
	}
	return t
}

func decisive(facts []webhook.Reading) (out []webhook.Reading) {
	for _, f := range facts {
		if decides(f.Fact) {
			out = append(out, f)
		}
	}
	return out
}

// held says whether a fact that we know is held, wherever it was told.
func held(told postgres.Told, f webhook.Reading) bool {
	some := false
	for _, e := range told.Facts {
		if e.Kind == f.Fact && e.Payment == f.Payment && (f.Object == "" || e.Object == f.Object) {
			if e.Verdict != order.Held {
				return false
			}
			some = true
		}
	}
	return some
}

func orderOf(told postgres.Told, f webhook.Reading) string {
	for _, e := range told.Facts {
		if f.Payment != "" && e.Payment == f.Payment && e.OrderID != "" {
			return e.OrderID
		}
	}
	return ""
}

// entries are facts as an order's set has them.
func entries(facts []webhook.Reading) []order.Entry {
	set := make([]order.Entry, len(facts))
	for i, f := range facts {
		set[i] = order.Entry{Kind: f.Fact, Payment: f.Payment, Object: f.Object, Amount: f.Amount, Currency: f.Currency}
	}
	return set
}

func stated(f webhook.Reading) []Stated {
	return []Stated{{Fact: f.Fact, Object: f.Object, Amount: f.Amount, Currency: f.Currency}}
}

// here is what we say of what a fact is about.
func here(told postgres.Told, f webhook.Reading) []Stated {
	var mine postgres.Told
	for _, e := range told.Facts {
		if f.Payment != "" && e.Payment == f.Payment || f.Order != "" && e.OrderID == f.Order {
			mine.Facts = append(mine.Facts, e)
		}
	}
	return all(mine)
}

func all(told postgres.Told) (out []Stated) {
	for _, e := range told.Facts {
		s := Stated{Fact: e.Kind, Object: e.Object, Amount: e.Amount, Currency: e.Currency, Verdict: e.Verdict.String()}
		if e.Verdict == order.Held {
			s.Reason = e.Reason.String()
		}
		out = append(out, s)
	}
	return out
}
