package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"sluice/pkg/effect"
	"sluice/pkg/postgres/internal/dbgen"
)

// Effect is one effect, claimed by one dispatcher for one attempt.
type Effect struct {
	Key  effect.Key
	Name string
	// OrderID is the order it is about.
	OrderID string
	// Attempt numbers every attempt there ever was, from 1; it is what fences a
	// dispatcher whose lease is over. Try counts from 1 in the present series: hold it
	// against the declared attempts.
	Attempt, Try int
	CreatedAt    time.Time
	// Body is what every attempt sends, byte for byte.
	Body []byte
}

// IdempotencyKey is the same for every attempt of the effect, for ever.
func (e Effect) IdempotencyKey() string { return e.Key.Text(e.Name) }

// Wanted is how many attempts of one effect a dispatcher is ready to make.
type Wanted struct {
	Name  string
	N     int
	Lease time.Duration // longer than an attempt may take
}

// ClaimEffects gives owner up to N due effects of each name, the longest due first,
// and nobody else until the lease is over. What is not wanted is left alone: a
// destination whose circuit is open, an effect that is not declared any more. It
// returns at once and locks nothing afterwards. What a dispatcher that died had
// claimed is due again after its lease, and the attempt is written down as lost.
func (s *Store) ClaimEffects(ctx context.Context, now time.Time, owner string, wanted ...Wanted) ([]Effect, error) {
	arg := dbgen.ClaimEffectsParams{Now: timestamp(now), Owner: owner}
	for _, w := range wanted {
		if w.N > 0 {
			arg.Effects, arg.Ns = append(arg.Effects, w.Name), append(arg.Ns, int32(w.N))
			arg.LeaseUntil = append(arg.LeaseUntil, timestamp(now.Add(w.Lease)))
		}
	}
	if len(arg.Effects) == 0 {
		return nil, nil
	}
	rows, err := dbgen.New(s.pool).ClaimEffects(ctx, arg)
	if err != nil {
		return nil, fmt.Errorf("claim effects: %w", err)
	}
	claimed := make([]Effect, len(rows))
	for i, r := range rows {
		claimed[i] = Effect{Key: r.Key.Bytes, Name: r.Effect, OrderID: r.OrderID.String, Attempt: int(r.Attempt),
			Try: int(r.Attempt - r.Series), CreatedAt: r.CreatedAt.Time, Body: r.Body}
	}
	return claimed, nil
}

// AttemptOutcome is what an attempt means for its effect.
type AttemptOutcome uint8

const (
	// AttemptDone: the receiver took it over.
	AttemptDone AttemptOutcome = iota
	// AttemptRetry: it is tried again at RetryAt.
	AttemptRetry
	// AttemptFailed: it was the last one, or none can help; a person is asked.
	AttemptFailed
	// AttemptUnmade: it was claimed and nothing was sent; it is due again at RetryAt,
	// and does not count.
	AttemptUnmade
)

// Attempt is what became of one attempt.
type Attempt struct {
	Effect  Effect
	Outcome AttemptOutcome
	RetryAt time.Time
	// StartedAt and Latency say when, and how long it took.
	StartedAt time.Time
	Latency   time.Duration
	// Status is the answer's, 0 if there was none.
	Status int
	// Class is why it did not succeed, one of a bounded set of words; empty if it did.
	Class string
	// Answer is how the answer began, without secrets; the store keeps MaxAnswer bytes
	// of it, printable.
	Answer string
}

// MaxAnswer is how many bytes of an answer are kept.
const MaxAnswer = 512

// FinishEffects writes down what became of attempts, in one transaction, and says of
// each whether it decided its effect. An attempt whose lease is over decides nothing
// if another has begun, with one exception: what was done is done. Effects that
// failed become review items; so does one that was outdated meanwhile.
func (s *Store) FinishEffects(ctx context.Context, now time.Time, attempts ...Attempt) (stands []bool, err error) {
	if len(attempts) == 0 {
		return nil, nil
	}
	err = s.InTx(ctx, func(tx Tx) error {
		stands, err = tx.finishEffects(ctx, now, attempts)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("finish effects: %w", err)
	}
	return stands, nil
}

func (tx Tx) finishEffects(ctx context.Context, now time.Time, attempts []Attempt) ([]bool, error) {
	keys := make([][16]byte, len(attempts))
	for i := range attempts {
		keys[i] = attempts[i].Effect.Key
	}
	rows, err := tx.q.LockEffects(ctx, uuids(keys))
	if err != nil {
		return nil, fmt.Errorf("lock effects: %w", err)
	}
	byKey := make(map[effect.Key]*dbgen.LockEffectsRow, len(rows))
	for i := range rows {
		byKey[rows[i].Key.Bytes] = &rows[i]
	}
	var (
		stands = make([]bool, len(attempts))
		set    dbgen.SetEffectsParams
		made   dbgen.AddEffectAttemptsParams
		done   []string // subjects of review items that nobody needs any more
		failed []ReviewItem
	)
	for i := range attempts {
		a := &attempts[i]
		row := byKey[a.Effect.Key]
		if row == nil {
			continue
		}
		if a.Outcome != AttemptUnmade {
			made.Keys, made.Attempts = append(made.Keys, uuid(a.Effect.Key)), append(made.Attempts, int32(a.Effect.Attempt))
			made.Statuses, made.Latencies = append(made.Statuses, int16(a.Status)), append(made.Latencies, int32(a.Latency.Milliseconds()))
			made.StartedAt, made.Classes = append(made.StartedAt, timestamp(a.StartedAt)), append(made.Classes, a.Class)
			made.Answers = append(made.Answers, printable(a.Answer))
		}
		own := effect.State(row.State) == effect.Leased && row.Attempt == int32(a.Effect.Attempt)
		if stands[i] = own || a.Outcome == AttemptDone && effect.State(row.State) != effect.Done; !stands[i] {
			continue
		}
		state, due, series := effect.Pending, a.RetryAt, row.Series
		switch subject := a.Effect.IdempotencyKey(); {
		case a.Outcome == AttemptDone:
			state, due = effect.Done, now
			done = append(done, subject)
		case row.Outdated: // nobody wants it any more; the review item says that it was attempted
			state, due = effect.Withdrawn, now
		case a.Outcome == AttemptUnmade:
			series++
		case a.Outcome == AttemptFailed:
			state, due = effect.Failed, now
			failed = append(failed, ReviewItem{Kind: ReviewEffectFailed, Subject: subject, OrderNo: row.OrderNo,
				Detail: fmt.Sprintf("effect %q of order %s failed after attempt %d: %s", a.Effect.Name, a.Effect.OrderID, a.Effect.Attempt, a.why())})
		}
		row.State, row.Series = int16(state), series // of two attempts of one effect the second sees the first
		set.Keys, set.States = append(set.Keys, uuid(a.Effect.Key)), append(set.States, int16(state))
		set.DueAt, set.Series = append(set.DueAt, timestamp(due)), append(set.Series, series)
	}
	if len(made.Keys) > 0 {
		if err := tx.q.AddEffectAttempts(ctx, made); err != nil {
			return nil, fmt.Errorf("add effect attempts: %w", err)
		}
	}
	if len(set.Keys) > 0 {
		if err := tx.q.SetEffects(ctx, set); err != nil {
			return nil, fmt.Errorf("set effects: %w", err)
		}
	}
	if err := tx.settleReviewItems(ctx, ReviewEffectFailed, done, EffectDone); err != nil {
		return nil, err
	}
	return stands, tx.openReviewItems(ctx, failed)
}

// why says in words how an attempt ended.
func (a *Attempt) why() string {
	if a.Status != 0 {
		return fmt.Sprintf("%s (HTTP %d)", a.Class, a.Status)
	}
	return a.Class
}

// printable is the beginning of an answer as it may be shown: one line, no control
// characters, whole characters.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError:
			return '?'
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, s[:min(len(s), 4*MaxAnswer)])
	if len(s) > MaxAnswer {
		s = s[:MaxAnswer]
		for !utf8.ValidString(s) {
			s = s[:len(s)-1]
		}
	}
	return s
}

// openReviewItems opens items, in one order.
func (tx Tx) openReviewItems(ctx context.Context, items []ReviewItem) error {
	slices.SortFunc(items, func(a, b ReviewItem) int { return strings.Compare(a.Subject, b.Subject) })
	for _, item := range items {
		err := tx.q.OpenReviewItem(ctx, dbgen.OpenReviewItemParams{Kind: string(item.Kind), Subject: item.Subject, Detail: item.Detail, OrderNo: orderNumber(item.OrderNo)})
		if err != nil {
			return fmt.Errorf("open review item of an effect: %w", err)
		}
	}
	return nil
}
