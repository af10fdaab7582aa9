package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"sluice/pkg/order"
	"sluice/pkg/postgres/internal/dbgen"
)

// Lookup is one question to a provider's API, claimed by one reconciler.
type Lookup struct {
	// Source is whose event it is about; Endpoint received it last: its account is asked.
	Source, Endpoint string
	Target
	// ArmedAt is since when it is open, BeganAt when it was claimed.
	ArmedAt, BeganAt time.Time
	// Attempt counts from 1 since it is open.
	Attempt int

	owner    string
	sourceNo int16
	arming   int64 // what an answer answers
}

// Target is what a provider's API is asked about: lookup.Target, as it is stored.
// The latest hint's word on it stands, and nobody has signed it: it says how to ask,
// and is no answer.
type Target struct {
	// Object names the look-up within its source.
	Object string
	// Type is the event's, the rest what it states; empty or 0 if it does not.
	Type, Order, Payment, Subject string
	Amount                        int64 // minor units of Currency
	Currency                      string
	Time                          time.Time
}

// LookupProblem is why an attempt brought no answer; a bounded set.
type LookupProblem string

// The problems of an attempt.
const (
	LookupUnknown     LookupProblem = "unknown"     // the provider knows no such object
	LookupRefused     LookupProblem = "refused"     // the provider refuses the request or the account
	LookupUnavailable LookupProblem = "unavailable" // no answer in time, or one that says: later
	LookupUnreadable  LookupProblem = "unreadable"  // the answer cannot be read
	LookupUndecided   LookupProblem = "undecided"   // the provider has answered that it does not know the end yet
	LookupUndelivered LookupProblem = "undelivered" // Kafka did not take what was learnt
	LookupUnasked     LookupProblem = ""            // nobody has tried, or whoever did came to no end
)

var lookupProblems = map[LookupProblem]string{
	LookupUnknown:     "the provider knows no such object",
	LookupRefused:     "the provider refuses to answer",
	LookupUnavailable: "the provider cannot be reached",
	LookupUnreadable:  "the provider's answer cannot be read",
	LookupUndecided:   "the provider says that nothing is decided yet",
	LookupUndelivered: "what the provider answered could not be written into the raw topic",
	LookupUnasked:     "the provider was not asked, or the attempt came to no end",
}

// String is the problem in a sentence.
func (p LookupProblem) String() string { return lookupProblems[p] }

// LookupSubject is the subject of the review item of a look-up. No source has a
// space in it.
func LookupSubject(source, object string) string { return source + " " + object }

// ClaimLookups gives owner up to limit of the open look-ups of one source that are
// due, the least often asked about first and of these the longest due, and no other
// owner for as long as lease says. It
// returns at once and locks nothing afterwards: several reconcilers may claim at any
// time, and what one that died had claimed is due again after its lease. The
// provider must be asked after the claim, or the answer may be older than the hint.
func (s *Store) ClaimLookups(ctx context.Context, now time.Time, owner, source string, limit int, lease time.Duration) (claimed []Lookup, err error) {
	err = s.InTx(ctx, func(tx Tx) error {
		claimed = nil
		nos, err := tx.nameNos(ctx, source)
		if err != nil {
			return err
		}
		rows, err := tx.q.ClaimLookups(ctx, dbgen.ClaimLookupsParams{Now: timestamp(now), LeaseUntil: timestamp(now.Add(lease)),
			Owner: pgtype.Text{String: owner, Valid: true}, SourceNo: nos[source], N: int32(limit)})
		if err != nil {
			return err
		}
		for _, r := range rows {
			l := Lookup{Source: source, ArmedAt: r.ArmedAt.Time, BeganAt: r.BegunAt.Time, Attempt: int(r.Attempts),
				Target: Target{Object: r.Object, Type: r.EventType, Order: r.OrderID, Payment: r.PaymentID, Subject: r.Subject,
					Amount: r.Amount, Currency: r.Currency},
				owner: owner, sourceNo: nos[source], arming: r.Begun}
			if r.OccurredAt != 0 {
				l.Time = time.UnixMilli(r.OccurredAt)
			}
			if l.Endpoint, err = tx.nameOf(ctx, r.EndpointNo); err != nil {
				return err
			}
			claimed = append(claimed, l)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("claim look-ups of source %s: %w", source, err)
	}
	slices.SortFunc(claimed, func(a, b Lookup) int { return cmp.Or(a.ArmedAt.Compare(b.ArmedAt), cmp.Compare(a.Object, b.Object)) })
	return claimed, nil
}

// AnswerLookup says that the provider has answered and that all it said is in the
// raw topic, acknowledged. Hints that came before the look-up began are settled: held
// becomes no change in the books, in their own hour. What was armed after it began
// stays open. Answering again changes nothing, and neither does an answer that is
// older than one already given; an answer whose lease is over counts.
func (s *Store) AnswerLookup(ctx context.Context, now time.Time, l Lookup) (settled int, err error) {
	err = s.InTx(ctx, func(tx Tx) error {
		settled = 0
		rows, err := tx.q.AnswerLookup(ctx, dbgen.AnswerLookupParams{SourceNo: l.sourceNo, Object: l.Object, Begun: l.arming,
			BeganAt: timestamp(l.BeganAt), ReviewAt: timestamp(tx.store.graces.due(order.AwaitingProvider, now))})
		if err != nil || len(rows) == 0 {
			return err
		}
		if settled, err = tx.settleHints(ctx, now, l.sourceNo, l.Object, l.arming); err != nil {
			return err
		}
		return tx.settleReviewItems(ctx, ReviewLookup, []string{LookupSubject(l.Source, l.Object)}, Answered)
	})
	if err != nil {
		return 0, fmt.Errorf("answer the look-up of %s of source %s: %w", l.Object, l.Source, err)
	}
	return settled, nil
}

// RetryLookup gives a claimed look-up back without an answer, to be tried again at
// the given time. It stays open however often that is, and a person is asked once
// its grace is over. If somebody else has claimed it meanwhile, or it was answered,
// it does nothing.
func (s *Store) RetryLookup(ctx context.Context, l Lookup, at time.Time, problem LookupProblem) error {
	err := dbgen.New(s.pool).RetryLookup(ctx, dbgen.RetryLookupParams{DueAt: timestamp(at), Problem: string(problem), SourceNo: l.sourceNo,
		Object: l.Object, Begun: l.arming, Attempts: int32(l.Attempt), Owner: pgtype.Text{String: l.owner, Valid: true}})
	if err != nil {
		return fmt.Errorf("give back the look-up of %s of source %s: %w", l.Object, l.Source, err)
	}
	return nil
}

// OpenLookups is how many look-ups of a source are open.
type OpenLookups struct {
	Source string
	Open   int64
	Since  time.Time // the oldest one
}

// OpenLookups counts the open look-ups of every source that has any.
func (s *Store) OpenLookups(ctx context.Context) ([]OpenLookups, error) {
	rows, err := dbgen.New(s.pool).OpenLookups(ctx)
	if err != nil {
		return nil, fmt.Errorf("count open look-ups: %w", err)
	}
	open := make([]OpenLookups, len(rows))
	for i, r := range rows {
		open[i] = OpenLookups{r.Source, r.Armed, r.Since.Time}
	}
	return open, nil
}

// maxLookupItems bounds how many open review items there are about single
// look-ups: who can forge a hint can forge many.
const maxLookupItems = 200

// ReviewUnansweredLookups makes one review item of each look-up whose grace is over,
// up to limit, and returns how many it took. Where there are many already, one item
// of the source stands for the rest.
func (tx Tx) ReviewUnansweredLookups(ctx context.Context, now time.Time, limit int) (int, error) {
	rows, err := tx.q.TakeUnansweredLookups(ctx, timestamp(now), int32(limit))
	if err != nil || len(rows) == 0 {
		return 0, wrap("take unanswered look-ups", err)
	}
	open, err := tx.q.CountOpenReviewItems(ctx, string(ReviewLookup), maxLookupItems)
	if err != nil {
		return 0, fmt.Errorf("count review items of look-ups: %w", err)
	}
	for _, r := range rows {
		source, err := tx.nameOf(ctx, r.SourceNo)
		if err != nil {
			return 0, err
		}
		why, attempts := LookupProblem(r.Problem).String(), ""
		if r.Attempts > 0 {
			attempts = fmt.Sprintf(" (attempt %d)", r.Attempts)
		}
		item := dbgen.OpenReviewItemParams{Kind: string(ReviewLookup), Subject: LookupSubject(source, r.Object),
			Detail: fmt.Sprintf("no answer about %q of source %q since %s: %s%s", r.Object, source, r.ArmedAt.Time.UTC().Format(time.RFC3339), why, attempts)}
		if open >= maxLookupItems {
			item.Subject = LookupSubject(source, "")
			item.Detail = fmt.Sprintf("more look-ups of source %q have no answer than are listed one by one; is its endpoint flooded with forged hints?", source)
		}
		if err := tx.q.OpenReviewItem(ctx, item); err != nil {
			return 0, fmt.Errorf("open review item of a look-up: %w", err)
		}
		open++
	}
	return len(rows), nil
}

// decideLookup is a person's word on a look-up without an answer. refetch: it is
// asked at once, and they again after another grace. dismiss: nothing more is
// expected of it; what it was to settle changes nothing, and reserves no order.
func (tx Tx) decideLookup(ctx context.Context, now time.Time, subject string, action ReviewDecision) error {
	source, object, _ := strings.Cut(subject, " ")
	if object == "" {
		if action != Dismiss {
			return fmt.Errorf("%w: it is about many look-ups and can only be dismissed", ErrDecision)
		}
		return nil
	}
	nos, err := tx.nameNos(ctx, source)
	if err != nil {
		return err
	}
	switch no := nos[source]; action {
	case Refetch:
		err = tx.q.AskAboutLookupAgain(ctx, timestamp(tx.store.graces.due(order.AwaitingProvider, now)), no, object)
		if err == nil {
			err = tx.q.HastenLookup(ctx, timestamp(now), no, object)
		}
		return wrap("ask the provider again", err)
	case Dismiss:
		if n, err := tx.q.GiveUpLookup(ctx, timestamp(now), no, object); err != nil || n == 0 {
			return wrap("give up a look-up", err)
		}
		if _, err := tx.settleHints(ctx, now, no, object, maxArming); err != nil {
			return err
		}
		return wrap("release the order", tx.q.ReleaseGivenUp(ctx, no, object))
	}
	return fmt.Errorf("%w: a look-up without an answer can only be dismissed or refetched", ErrDecision)
}

// object is one of a provider's objects.
type object struct {
	sourceNo int16
	id       string
}

func compareObjects(a, b object) int {
	return cmp.Or(cmp.Compare(a.sourceNo, b.sourceNo), cmp.Compare(a.id, b.id))
}

// arming is an object that must be asked about, with what is known of it.
type arming struct {
	object
	endpointNo int16
	target     Target
}

// arm makes sure that each object, one row each, will be asked about after this
// transaction, and returns the arming that a look-up must answer. The rows must be
// locked, or absent, when it is called.
func (tx Tx) arm(ctx context.Context, now time.Time, objects []arming) (map[object]int64, error) {
	armed := make(map[object]int64, len(objects))
	if len(objects) == 0 {
		return armed, nil
	}
	slices.SortFunc(objects, func(a, b arming) int { return compareObjects(a.object, b.object) })
	arg := dbgen.ArmLookupsParams{Now: timestamp(now), ReviewAt: timestamp(tx.store.graces.due(order.AwaitingProvider, now))}
	for _, o := range objects {
		arg.SourceNos, arg.Objects = append(arg.SourceNos, o.sourceNo), append(arg.Objects, o.id)
		arg.EndpointNos = append(arg.EndpointNos, o.endpointNo)
		t := o.target
		arg.EventTypes, arg.Subjects = append(arg.EventTypes, t.Type), append(arg.Subjects, t.Subject)
		arg.OrderIds, arg.PaymentIds = append(arg.OrderIds, t.Order), append(arg.PaymentIds, t.Payment)
		arg.Amounts, arg.Currencies = append(arg.Amounts, t.Amount), append(arg.Currencies, t.Currency)
		ms := int64(0)
		if !t.Time.IsZero() {
			ms = t.Time.UnixMilli()
		}
		arg.OccurredAt = append(arg.OccurredAt, ms)
	}
	rows, err := tx.q.ArmLookups(ctx, arg)
	if err != nil {
		return nil, fmt.Errorf("arm look-ups: %w", err)
	}
	for _, r := range rows {
		armed[object{r.SourceNo, r.Object}] = r.Armed
	}
	return armed, nil
}

// awaitProvider arms the look-up of what a held event is about. The event stays
// held until the provider's answer, an event of its own, lets it fit; or until the
// grace of AwaitingProvider is over.
func (tx Tx) awaitProvider(ctx context.Context, m *member, orderID string, now time.Time) error {
	about := object{m.SourceNo, cmp.Or(m.PaymentID, m.ObjectID, m.EventID)}
	target := Target{Object: about.id, Type: m.EventType, Order: orderID, Payment: m.PaymentID, Subject: m.ObjectID,
		Amount: m.Amount, Currency: m.Currency}
	if m.OccurredAt != 0 {
		target.Time = time.UnixMilli(m.OccurredAt)
	}
	_, err := tx.arm(ctx, now, []arming{{about, m.EndpointNo, target}})
	if err == nil {
		err = wrap("ask the provider at once", tx.q.HastenLookup(ctx, timestamp(now), about.sourceNo, about.id))
	}
	if err != nil {
		return err
	}
	err = tx.q.SetVerdict(ctx, dbgen.SetVerdictParams{OrderNo: m.OrderNo, EventHash: m.EventHash,
		Verdict: int16(order.Held), Reason: int16(order.AwaitingProvider)})
	if err != nil {
		return fmt.Errorf("hold an event for its provider: %w", err)
	}
	err = tx.q.AwaitProvider(ctx, dbgen.AwaitProviderParams{OrderNo: m.OrderNo, EventHash: m.EventHash,
		Reason: int16(order.AwaitingProvider), DueAt: timestamp(tx.store.graces.due(order.AwaitingProvider, now))})
	if err != nil {
		return fmt.Errorf("hold an event for its provider: %w", err)
	}
	return nil
}

// errNoHint keeps hints that name nothing out of the tables.
var errNoHint = errors.New("a hint names nothing to ask about")
