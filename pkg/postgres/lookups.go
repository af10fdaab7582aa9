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
	// Lane is for whom it is. Hanging: an order or a held event waits for it too, which
	// ends by itself; Refund: that is a refund whose end nobody has told.
	Lane            Lane
	Hanging, Refund bool

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

// Lane is for whom a look-up is: each lane has its share of the requests. In each the
// longest due is asked about first.
type Lane int16

// The lanes.
const (
	LaneHint     Lane = iota // for a hint that names a payment or an order that we know
	LaneHanging              // for an order that is pending, or an event that is held
	LaneStranger             // for a hint that names nothing we know: anybody can have made it
	LaneRetry                // the same, of which the provider knows nothing either
)

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

// LookupClaim is a wish for up to Limit look-ups of one source and lane, for as long as
// Lease.
type LookupClaim struct {
	Owner, Source string
	Lane          Lane
	Limit         int
	Lease         time.Duration
}

// ClaimLookups gives the owner open look-ups that are due, the longest due first, and
// no other owner for as long as the lease.
// It returns at once and locks nothing afterwards: several reconcilers may claim at
// any time, and what one that died had claimed is due again after its lease. The
// provider must be asked after the claim, or the answer may be older than the hint.
//
// What is not wanted any more, because its order is decided or its event no longer
// held, is closed and not given; more says that others may be due.
func (s *Store) ClaimLookups(ctx context.Context, now time.Time, c LookupClaim) (claimed []Lookup, more bool, err error) {
	err = s.InTx(ctx, func(tx Tx) error {
		claimed = nil
		nos, err := tx.nameNos(ctx, c.Source)
		if err != nil {
			return err
		}
		rows, err := tx.q.ClaimLookups(ctx, dbgen.ClaimLookupsParams{Now: timestamp(now), LeaseUntil: timestamp(now.Add(c.Lease)),
			Owner: pgtype.Text{String: c.Owner, Valid: true}, SourceNo: nos[c.Source], Lane: int16(c.Lane), N: int32(c.Limit)})
		if err != nil {
			return err
		}
		more = len(rows) == c.Limit
		idle, refunds, err := tx.closeIdle(ctx, now, c.Source, nos[c.Source], rows)
		if err != nil {
			return err
		}
		for _, r := range rows {
			if idle[r.Object] {
				continue
			}
			l := Lookup{Source: c.Source, ArmedAt: r.ArmedAt.Time, BeganAt: r.BegunAt.Time, Attempt: int(r.Attempts),
				Target: Target{Object: r.Object, Type: r.EventType, Order: r.OrderID, Payment: r.PaymentID, Subject: r.Subject,
					Amount: r.Amount, Currency: r.Currency, Time: atMillis(r.OccurredAt)},
				Lane: c.Lane, Hanging: r.OrderNo.Valid, Refund: refunds[r.Object], owner: c.Owner, sourceNo: nos[c.Source], arming: r.Begun}
			if l.Endpoint, err = tx.nameOf(ctx, r.EndpointNo); err != nil {
				return err
			}
			claimed = append(claimed, l)
		}
		return nil
	})
	if err != nil {
		return nil, false, fmt.Errorf("claim look-ups of source %s: %w", c.Source, err)
	}
	slices.SortFunc(claimed, func(a, b Lookup) int { return cmp.Or(a.ArmedAt.Compare(b.ArmedAt), cmp.Compare(a.Object, b.Object)) })
	return claimed, more, nil
}

// closeIdle closes those of claimed look-ups that are for nobody any more, and says which
// of the others are for a refund.
func (tx Tx) closeIdle(ctx context.Context, now time.Time, source string, sourceNo int16, rows []dbgen.ClaimLookupsRow) (idle, refunds map[string]bool, err error) {
	arg := dbgen.IdleLookupsParams{SourceNo: sourceNo, Pending: int16(order.Pending), UnderWay: int16(order.KindPending),
		Ends: []int16{int16(order.KindRefund), int16(order.KindRefundFailed)}}
	for _, r := range rows {
		if r.OrderNo.Valid {
			arg.Objects, arg.OrderNos, arg.EventHashes = append(arg.Objects, r.Object), append(arg.OrderNos, r.OrderNo.Int64), append(arg.EventHashes, r.EventHash)
		}
	}
	if len(arg.Objects) == 0 {
		return nil, nil, nil
	}
	found, err := tx.q.IdleLookups(ctx, arg)
	if err != nil {
		return nil, nil, fmt.Errorf("find look-ups for nobody: %w", err)
	}
	var objects []string
	idle, refunds = map[string]bool{}, map[string]bool{}
	for _, f := range found {
		if refunds[f.Object] = f.Refund; f.Idle {
			idle[f.Object], objects = true, append(objects, f.Object)
		}
	}
	if len(objects) == 0 {
		return nil, refunds, nil
	}
	return idle, refunds, tx.closeLookups(ctx, now, source, sourceNo, objects, MovedOn)
}

// closeLookups closes look-ups without an answer; how says why.
func (tx Tx) closeLookups(ctx context.Context, now time.Time, source string, sourceNo int16, objects []string, how ReviewDecision) error {
	closed, err := tx.q.CloseLookups(ctx, timestamp(now), sourceNo, objects)
	if err != nil {
		return fmt.Errorf("close look-ups: %w", err)
	}
	return tx.settleLookupItems(ctx, source, closed, how)
}

// settleLookupItems settles what people were asked about look-ups.
func (tx Tx) settleLookupItems(ctx context.Context, source string, objects []string, how ReviewDecision) error {
	subjects := make([]string, len(objects))
	for i, o := range objects {
		subjects[i] = LookupSubject(source, o)
	}
	for _, kind := range []ReviewKind{ReviewLookup, ReviewHanging} {
		if err := tx.settleReviewItems(ctx, kind, subjects, how); err != nil {
			return err
		}
	}
	return nil
}

// EndLookup closes a look-up that no hint waits for and that has been asked about for
// long enough. A review item about it stays open. If a hint has come meanwhile, it
// does nothing: the lease ends by itself.
func (s *Store) EndLookup(ctx context.Context, now time.Time, l Lookup) error {
	err := s.InTx(ctx, func(tx Tx) error {
		_, err := tx.q.EndLookup(ctx, dbgen.EndLookupParams{Now: timestamp(now), SourceNo: l.sourceNo, Object: l.Object, Begun: l.arming,
			Owner: pgtype.Text{String: l.owner, Valid: true}})
		return err
	})
	return wrap(fmt.Sprintf("end the look-up of %s of source %s", l.Object, l.Source), err)
}

// AnswerLookup says that the provider has answered and that all it said is in the
// raw topic, acknowledged. Hints that came before the look-up began are settled: held
// becomes no change in the books, in their own hour. What was armed after it began
// stays open. Answering again changes nothing, and neither does an answer that is
// older than one already given; an answer whose lease is over counts.
//
// said are the facts that the answer stated, to be compared with our state once they
// were processed; see CompareAnswers.
func (s *Store) AnswerLookup(ctx context.Context, now time.Time, l Lookup, said ...Said) (settled int, err error) {
	err = s.InTx(ctx, func(tx Tx) error {
		settled, err = tx.answerLookup(ctx, now, l, said)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("answer the look-up of %s of source %s: %w", l.Object, l.Source, err)
	}
	return settled, nil
}

// Undecided says how an answer goes on that decides nothing.
type Undecided struct {
	// Orders are whom the payment is for, by the answer.
	Orders []string
	// Refund is one that is under way, where the payment itself is decided.
	Refund *Said
	// At is when it is asked about again, ReviewAt when a person is.
	At, ReviewAt time.Time
}

// AnswerUndecided is AnswerLookup of an answer that decides nothing: hints need wait no
// longer, but if one of the orders is pending, or a refund is under way, it hangs, and is
// asked about from now on.
func (s *Store) AnswerUndecided(ctx context.Context, now time.Time, l Lookup, u Undecided, said ...Said) (settled int, err error) {
	err = s.InTx(ctx, func(tx Tx) error {
		if settled, err = tx.answerLookup(ctx, now, l, said); err != nil {
			return err
		}
		if u.Refund != nil {
			return tx.q.HangOnRefund(ctx, dbgen.HangOnRefundParams{SourceNo: l.sourceNo, Object: l.Object, PaymentID: u.Refund.Payment, EventHash: uuid(u.Refund.Event),
				Now: timestamp(now), DueAt: timestamp(u.At), ReviewAt: timestamp(u.ReviewAt), Lane: int16(LaneHanging)})
		}
		return tx.q.HangOn(ctx, dbgen.HangOnParams{SourceNo: l.sourceNo, Object: l.Object, OrderIds: u.Orders, Now: timestamp(now), DueAt: timestamp(u.At),
			ReviewAt: timestamp(u.ReviewAt), Lane: int16(LaneHanging), Pending: int16(order.Pending)})
	})
	if err != nil {
		return 0, fmt.Errorf("answer the look-up of %s of source %s: %w", l.Object, l.Source, err)
	}
	return settled, nil
}

// AnswerHanging is AnswerUndecided of what hangs already: it stays open, since when it
// was, and a person who is asked about it stays so.
func (s *Store) AnswerHanging(ctx context.Context, now time.Time, l Lookup, u Undecided, said ...Said) (settled int, err error) {
	err = s.InTx(ctx, func(tx Tx) error {
		rows, err := tx.q.AnswerHanging(ctx, dbgen.AnswerHangingParams{SourceNo: l.sourceNo, Object: l.Object, Begun: l.arming, Owner: pgtype.Text{String: l.owner, Valid: true},
			DueAt: timestamp(u.At), ReviewAt: timestamp(u.ReviewAt), Problem: string(LookupUndecided)})
		if err != nil || len(rows) == 0 {
			return err
		}
		if settled, err = tx.settleHints(ctx, now, l.sourceNo, l.Object, l.arming); err != nil {
			return err
		}
		return tx.keepAnswer(ctx, now, l, said)
	})
	if err != nil {
		return 0, fmt.Errorf("answer the look-up of %s of source %s: %w", l.Object, l.Source, err)
	}
	return settled, nil
}

func (tx Tx) answerLookup(ctx context.Context, now time.Time, l Lookup, said []Said) (settled int, err error) {
	rows, err := tx.q.AnswerLookup(ctx, dbgen.AnswerLookupParams{SourceNo: l.sourceNo, Object: l.Object, Begun: l.arming,
		BeganAt: timestamp(l.BeganAt), ReviewAt: timestamp(tx.store.graces.due(order.AwaitingProvider, now))})
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	if settled, err = tx.settleHints(ctx, now, l.sourceNo, l.Object, l.arming); err != nil {
		return 0, err
	}
	if err := tx.keepAnswer(ctx, now, l, said); err != nil {
		return 0, err
	}
	return settled, tx.settleLookupItems(ctx, l.Source, []string{l.Object}, Answered)
}

// RetryLookup gives a claimed look-up back without an answer, to be tried again at
// the given time. It stays open however often that is, and a person is asked once
// its grace is over. If somebody else has claimed it meanwhile, or it was answered,
// it does nothing.
func (s *Store) RetryLookup(ctx context.Context, l Lookup, at time.Time, problem LookupProblem) error {
	err := dbgen.New(s.pool).RetryLookup(ctx, dbgen.RetryLookupParams{Strangers: int16(LaneStranger), Retries: int16(LaneRetry), DueAt: timestamp(at), Problem: string(problem), SourceNo: l.sourceNo,
		Object: l.Object, Begun: l.arming, Attempts: int32(l.Attempt), Owner: pgtype.Text{String: l.owner, Valid: true}})
	if err != nil {
		return fmt.Errorf("give back the look-up of %s of source %s: %w", l.Object, l.Source, err)
	}
	return nil
}

// OpenLookups is how many look-ups of a source are open.
type OpenLookups struct {
	Source string
	// Open are those that hints wait for, Since how long the oldest of them.
	Open  int64
	Since time.Time
	// Hanging are those of orders that are pending and events that are held, and that
	// no hint waits for.
	Hanging int64
}

// OpenLookups counts the open look-ups of every source that has any.
func (s *Store) OpenLookups(ctx context.Context) ([]OpenLookups, error) {
	rows, err := dbgen.New(s.pool).OpenLookups(ctx, int16(LaneHanging))
	if err != nil {
		return nil, fmt.Errorf("count open look-ups: %w", err)
	}
	open := make([]OpenLookups, len(rows))
	for i, r := range rows {
		open[i] = OpenLookups{Source: r.Source, Open: r.Open, Since: r.Since.Time, Hanging: r.Hanging}
	}
	return open, nil
}

// maxLookupItems bounds how many open review items there are about single
// look-ups: who can forge a hint can forge many.
const maxLookupItems = 200

// ReviewUnansweredLookups makes one review item of each look-up whose grace is over,
// up to limit, and returns how many it took. Where there are many already, one item
// of the source stands for the rest. An order of which no payment is known, neither
// to us nor to the provider, was never paid, and is nobody's work.
func (tx Tx) ReviewUnansweredLookups(ctx context.Context, now time.Time, limit int) (int, error) {
	rows, err := tx.q.TakeUnansweredLookups(ctx, timestamp(now), int32(limit))
	if err != nil || len(rows) == 0 {
		return 0, wrap("take unanswered look-ups", err)
	}
	open := map[ReviewKind]int64{}
	for _, kind := range []ReviewKind{ReviewLookup, ReviewHanging} {
		if open[kind], err = tx.q.CountOpenReviewItems(ctx, string(kind), maxLookupItems); err != nil {
			return 0, fmt.Errorf("count review items of look-ups: %w", err)
		}
	}
	for _, r := range rows {
		source, err := tx.nameOf(ctx, r.SourceNo)
		if err != nil {
			return 0, err
		}
		problem := LookupProblem(r.Problem)
		if Lane(r.Lane) == LaneHanging && r.PaymentID == "" && (problem == LookupUnknown || problem == LookupUndecided) {
			continue
		}
		item := unanswered(source, r)
		if kind := ReviewKind(item.Kind); open[kind] >= maxLookupItems {
			item.Subject, item.OrderNo = LookupSubject(source, ""), pgtype.Int8{}
			item.Detail = tooMany[kind](source)
		}
		if err := tx.q.OpenReviewItem(ctx, item); err != nil {
			return 0, fmt.Errorf("open review item of a look-up: %w", err)
		}
		open[ReviewKind(item.Kind)]++
	}
	return len(rows), nil
}

// unanswered is the review item of a look-up.
func unanswered(source string, r dbgen.TakeUnansweredLookupsRow) dbgen.OpenReviewItemParams {
	since, why, attempts := r.ArmedAt.Time.UTC().Format(time.RFC3339), LookupProblem(r.Problem).String(), ""
	if r.Attempts > 0 {
		attempts = fmt.Sprintf(" (attempt %d)", r.Attempts)
	}
	item := dbgen.OpenReviewItemParams{Kind: string(ReviewLookup), Subject: LookupSubject(source, r.Object), OrderNo: r.OrderNo,
		Detail: fmt.Sprintf("no answer about %q of source %q since %s: %s%s", r.Object, source, since, why, attempts)}
	if Lane(r.Lane) == LaneHanging && !r.EventHash.Valid {
		item.Kind = string(ReviewHanging)
		item.Detail = fmt.Sprintf("order %q is pending, and source %q has been asked about %q since %s: %s%s", r.OrderID, source, r.Object, since, why, attempts)
	}
	return item
}

var tooMany = map[ReviewKind]func(source string) string{
	ReviewLookup: func(source string) string {
		return fmt.Sprintf("more look-ups of source %q have no answer than are listed one by one; is its endpoint flooded with forged hints?", source)
	},
	ReviewHanging: func(source string) string {
		return fmt.Sprintf("more orders paid at source %q are pending than are listed one by one; does its provider answer?", source)
	},
}

// SettleHangingOrders settles the review items of orders that are pending no longer,
// and returns how many it settled. Their look-ups close when they are claimed.
func (tx Tx) SettleHangingOrders(ctx context.Context, now time.Time, limit int) (int, error) {
	n, err := tx.q.SettleHangingOrders(ctx, dbgen.SettleHangingOrdersParams{Now: timestamp(now), Kind: string(ReviewHanging), Decision: string(MovedOn),
		Pending: int16(order.Pending), N: int32(limit)})
	return int(n), wrap("settle the review items of orders that moved on", err)
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
		if closed, err := tx.q.CloseLookups(ctx, timestamp(now), no, []string{object}); err != nil || len(closed) == 0 {
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
	lane       Lane
	// reviewAt is when a person is asked, if it is open for so long; zero: never.
	reviewAt time.Time
	// orderNo is the order that hangs, or the one of the event that is held; 0: none.
	orderNo int64
	event   pgtype.UUID
	// dueAt is when it is asked about at the earliest; zero: at once.
	dueAt time.Time
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
	arg := dbgen.ArmLookupsParams{Now: timestamp(now)}
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
		arg.Lanes, arg.OrderNos, arg.EventHashes = append(arg.Lanes, int16(o.lane)), append(arg.OrderNos, o.orderNo), append(arg.EventHashes, o.event)
		due := now
		if o.dueAt.After(now) {
			due = o.dueAt
		}
		arg.DueAt = append(arg.DueAt, timestamp(due))
		arg.ReviewAt = append(arg.ReviewAt, pgtype.Timestamptz{Time: o.reviewAt, Valid: !o.reviewAt.IsZero()})
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
		Amount: m.Amount, Currency: m.Currency, Time: atMillis(m.OccurredAt)}
	_, err := tx.arm(ctx, now, []arming{{object: about, endpointNo: m.EndpointNo, target: target, lane: LaneHint,
		reviewAt: tx.store.graces.due(order.AwaitingProvider, now)}})
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

// atMillis is a stored time, zero if it is not known.
func atMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// errNoHint keeps hints that name nothing out of the tables.
var errNoHint = errors.New("a hint names nothing to ask about")
