package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sluice/pkg/order"
	"sluice/pkg/postgres/internal/dbgen"
)

// Said is one fact that a provider's answer stated, and the event that it became.
type Said struct {
	Event    [16]byte   `json:"event"`
	Kind     order.Kind `json:"kind"`
	Payment  string     `json:"payment"`
	Object   string     `json:"object,omitempty"`
	Amount   int64      `json:"amount,omitempty"`
	Currency string     `json:"currency,omitempty"`
}

// When answers are compared.
const (
	compareAfter = 2 * time.Second  // what was produced is mostly processed then
	compareNever = 24 * time.Hour   // what was not processed for so long never will be
	askAgain     = time.Minute      // a provider's API may be behind its own webhooks
	longestWait  = 10 * time.Minute // between tries
)

// keepAnswer keeps what was said of payments until it can be compared.
func (tx Tx) keepAnswer(ctx context.Context, now time.Time, l Lookup, said []Said) error {
	said = slices.DeleteFunc(slices.Clone(said), func(s Said) bool { return s.Payment == "" })
	if len(said) == 0 {
		return nil
	}
	text, err := json.Marshal(said)
	if err != nil {
		return fmt.Errorf("write what a provider said: %w", err)
	}
	err = tx.q.KeepAnswer(ctx, dbgen.KeepAnswerParams{SourceNo: l.sourceNo, Object: l.Object, Said: text, Now: timestamp(now),
		CompareAt: timestamp(now.Add(compareAfter))})
	return wrap("keep what a provider said", err)
}

// DoubtPayment notes that the provider knows no such payment as l is about. It says so
// of what is very young, too: call it after some attempts.
func (s *Store) DoubtPayment(ctx context.Context, now time.Time, l Lookup) error {
	err := dbgen.New(s.pool).KeepAnswer(ctx, dbgen.KeepAnswerParams{SourceNo: l.sourceNo, Object: l.Object, PaymentID: l.Payment,
		Now: timestamp(now), CompareAt: timestamp(now)})
	return wrap("keep that a provider knows no payment "+l.Payment+" of source "+l.Source, err)
}

// CompareAnswers compares what the provider of a source said with what our orders say,
// once all of it was processed, up to limit answers, and returns how many it took.
// Where they differ the provider is asked again, for an API may be behind its own
// webhooks; where they differ again a person is asked, once for each payment. The item
// settles itself when a later answer agrees.
func (s *Store) CompareAnswers(ctx context.Context, now time.Time, source string, limit int) (n int, err error) {
	err = s.InTx(ctx, func(tx Tx) error {
		nos, err := tx.nameNos(ctx, source)
		if err != nil {
			return err
		}
		rows, err := tx.q.DueComparisons(ctx, nos[source], timestamp(now), int32(limit))
		if err != nil {
			return err
		}
		n = len(rows)
		c := comparing{tx: tx, now: now, source: source, sourceNo: nos[source]}
		for _, r := range rows {
			if err := c.compare(ctx, r); err != nil {
				return err
			}
		}
		if len(c.over) == 0 {
			return nil
		}
		return tx.q.EndComparisons(ctx, c.sourceNo, c.over)
	})
	if err != nil {
		return 0, fmt.Errorf("compare the answers of source %s: %w", source, err)
	}
	return n, nil
}

// comparing is one round.
type comparing struct {
	tx       Tx
	now      time.Time
	source   string
	sourceNo int16
	over     []string // objects
}

func (c *comparing) compare(ctx context.Context, r dbgen.DueComparisonsRow) error {
	var said []Said
	byPayment := map[string][]order.Entry{}
	if r.Said != nil {
		if err := json.Unmarshal(r.Said, &said); err != nil {
			return fmt.Errorf("read what a provider said: %w", err)
		}
	} else {
		byPayment[r.PaymentID] = nil
	}
	wanted := map[[16]byte]bool{}
	for _, s := range said {
		wanted[s.Event] = true
		byPayment[s.Payment] = append(byPayment[s.Payment], order.Entry{Kind: s.Kind, Payment: s.Payment, Object: s.Object, Amount: s.Amount, Currency: s.Currency})
	}
	ours, err := c.ours(ctx, slices.Sorted(maps.Keys(byPayment)), wanted)
	if err != nil {
		return err
	}
	if len(wanted) > 0 {
		if c.now.Sub(r.SaidAt.Time) > compareNever {
			c.over = append(c.over, r.Object)
			return nil
		}
		wait := min(compareAfter<<min(r.Tries, 10), longestWait)
		return c.tx.q.DeferComparison(ctx, timestamp(c.now.Add(wait)), c.sourceNo, r.Object)
	}
	differ := map[string]string{}
	for payment, o := range ours {
		var differences []string
		if r.Said == nil {
			if o.standing.Paid {
				differences = []string{"we say paid, the provider knows no such payment"}
			}
		} else {
			differences = o.standing.Contradicts(order.StandingOf(payment, byPayment[payment]))
		}
		if len(differences) > 0 {
			differ[payment] = strings.Join(differences, "; ")
		}
	}
	if len(differ) > 0 && r.Said != nil && !r.Differed {
		n, err := c.tx.q.RearmLookup(ctx, dbgen.RearmLookupParams{Now: timestamp(c.now), DueAt: timestamp(c.now.Add(askAgain)), Lane: int16(LaneHanging),
			SourceNo: c.sourceNo, Object: r.Object})
		if err != nil {
			return err
		}
		if n > 0 {
			return c.tx.q.DoubtComparison(ctx, c.sourceNo, r.Object)
		}
	}
	c.over = append(c.over, r.Object)
	return c.tell(ctx, r, ours, differ)
}

// tell opens the review items of payments that differ, and settles those of payments
// that agree.
func (c *comparing) tell(ctx context.Context, r dbgen.DueComparisonsRow, ours map[string]ourPayment, differ map[string]string) error {
	var agree []string
	for _, payment := range slices.Sorted(maps.Keys(ours)) {
		subject := LookupSubject(c.source, payment)
		what, differs := differ[payment]
		if !differs {
			agree = append(agree, subject)
			continue
		}
		err := c.tx.q.OpenReviewItem(ctx, dbgen.OpenReviewItemParams{Kind: string(ReviewContradicts), Subject: subject, OrderNo: orderNumber(ours[payment].orderNo),
			Detail: fmt.Sprintf("payment %q of source %q: %s (asked about %q at %s)", payment, c.source, what, r.Object, r.SaidAt.Time.UTC().Format(time.RFC3339))})
		if err != nil {
			return fmt.Errorf("open review item of a contradiction: %w", err)
		}
	}
	return c.tx.settleReviewItems(ctx, ReviewContradicts, agree, Agrees)
}

// ourPayment is how a payment stands in the order that it leads to.
type ourPayment struct {
	orderNo  int64
	standing order.Standing
}

// ours is how we see the payments that we know. It removes from events those that
// were processed.
func (c *comparing) ours(ctx context.Context, ids []string, events map[[16]byte]bool) (map[string]ourPayment, error) {
	links := map[payment]link{}
	var all []payment
	for _, id := range ids {
		all = append(all, payment{c.sourceNo, id})
	}
	if err := c.tx.findPayments(ctx, all, links); err != nil {
		return nil, err
	}
	var nos []int64
	for _, l := range links {
		nos = append(nos, l.orderNo)
	}
	rows, err := c.tx.q.LoadOrderEvents(ctx, nos)
	if err != nil {
		return nil, fmt.Errorf("read order events: %w", err)
	}
	for _, r := range rows {
		delete(events, r.EventHash.Bytes)
	}
	counted := c.counted(rows)
	out := map[string]ourPayment{}
	for p, l := range links {
		out[p.id] = ourPayment{l.orderNo, order.StandingOf(p.id, counted[l.orderNo])}
	}
	return out, nil
}

// counted are the entries of the source that count, by order. A refund may count that
// changed nothing when it came, as it was in a total already: only what a person has
// dismissed does not, and what echoes an entry that is held.
func (c *comparing) counted(rows []dbgen.LoadOrderEventsRow) map[int64][]order.Entry {
	type object struct {
		orderNo     int64
		kind        int16
		payment, id string
	}
	held, dismissed := map[object]bool{}, map[[16]byte]bool{}
	for _, r := range rows {
		switch {
		case order.Verdict(r.Verdict) == order.Held:
			held[object{r.OrderNo, r.Kind, r.PaymentID, r.ObjectID}] = true
		case order.Kind(r.Kind) == order.KindDismiss:
			dismissed[targetOf(r.ObjectID)] = true
		}
	}
	counted := map[int64][]order.Entry{}
	for _, r := range rows {
		kind, verdict := order.Kind(r.Kind), order.Verdict(r.Verdict)
		silent := verdict == order.NoChange && kind.MovesMoney() && kind != order.KindPaid &&
			!dismissed[r.EventHash.Bytes] && !held[object{r.OrderNo, r.Kind, r.PaymentID, r.ObjectID}]
		if r.SourceNo == c.sourceNo && (verdict == order.Applied || silent) {
			counted[r.OrderNo] = append(counted[r.OrderNo], order.Entry{Kind: kind, Payment: r.PaymentID, Object: r.ObjectID, Amount: r.Amount, Currency: r.Currency})
		}
	}
	return counted
}

// decideContradiction is a person's word on a provider that contradicts us: refetch
// asks it again, dismiss lets it be.
func (tx Tx) decideContradiction(ctx context.Context, now time.Time, subject string, action ReviewDecision) error {
	switch action {
	case Dismiss:
		return nil
	case Refetch:
	default:
		return fmt.Errorf("%w: what a provider contradicts can only be dismissed or refetched", ErrDecision)
	}
	source, object, _ := strings.Cut(subject, " ")
	nos, err := tx.nameNos(ctx, source)
	if err != nil {
		return err
	}
	n, err := tx.q.RearmLookup(ctx, dbgen.RearmLookupParams{Now: timestamp(now), DueAt: timestamp(now), Lane: int16(LaneHint), SourceNo: nos[source], Object: object})
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: the payment is being asked about already, or was last so long ago that nobody knows how", ErrDecision)
	}
	return err
}
