package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"sluice/pkg/effect"
	"sluice/pkg/order"
	"sluice/pkg/postgres/internal/dbgen"
)

// EffectSummary is an effect as a list shows it.
type EffectSummary struct {
	Key      string       `json:"key"` // as receivers see it
	Effect   string       `json:"effect"`
	Order    string       `json:"order"`
	State    effect.State `json:"state"`
	Outdated bool         `json:"outdated"`
	Fact     EffectFact   `json:"fact"`
	// Version is the order's, with which it came.
	Version int64 `json:"version"`
	// Attempts is how often it was attempted, Tries how often since it was sent again
	// last.
	Attempts  int       `json:"attempts"`
	Tries     int       `json:"tries"`
	CreatedAt time.Time `json:"created_at"`
	// DueAt is when it may be attempted (pending), when its lease ends (leased), or
	// when it ended.
	DueAt time.Time `json:"due_at"`
	// LastStatus and LastClass are what the last attempt that came to an end brought.
	LastStatus int    `json:"last_status,omitempty"`
	LastClass  string `json:"last_class,omitempty"`
}

// EffectFact is the fact that caused an effect.
type EffectFact struct {
	Source  string     `json:"source"`
	Kind    order.Kind `json:"kind"`
	Payment string     `json:"payment,omitempty"`
	Object  string     `json:"object,omitempty"`
}

// EffectFilter says which effects are wanted. What is empty does not matter.
type EffectFilter struct {
	States        []effect.State
	Effect, Order string
	Limit         int
}

// ListEffects lists effects, the oldest first.
func (s *Store) ListEffects(ctx context.Context, f EffectFilter) ([]EffectSummary, error) {
	arg := listed(f.States...)
	arg.Effect, arg.N = f.Effect, int32(f.Limit)
	if f.Order != "" {
		rows, err := dbgen.New(s.pool).FindOrders(ctx, []string{f.Order})
		switch {
		case err != nil:
			return nil, fmt.Errorf("find order: %w", err)
		case len(rows) == 0:
			return nil, fmt.Errorf("list effects of order %s: %w", f.Order, ErrNoOrder)
		}
		arg.OrderNo = rows[0].OrderNo
	}
	return listEffects(ctx, dbgen.New(s.pool), arg)
}

// listed asks for effects in these states, in all if none is named. It says the same
// twice: once so that indexes of the few that are open or failed will do.
func listed(states ...effect.State) (arg dbgen.ListEffectsParams) {
	if len(states) == 0 {
		states = effect.States()
	}
	for _, st := range states {
		arg.States = append(arg.States, int16(st))
		arg.Open = arg.Open || st == effect.Pending || st == effect.Leased
		arg.Failed = arg.Failed || st == effect.Failed
		arg.Ended = arg.Ended || st == effect.Done || st == effect.Withdrawn
	}
	arg.Keys = []pgtype.UUID{}
	return arg
}

func listEffects(ctx context.Context, q dbgen.Querier, arg dbgen.ListEffectsParams) ([]EffectSummary, error) {
	rows, err := q.ListEffects(ctx, arg)
	if err != nil {
		return nil, fmt.Errorf("list effects: %w", err)
	}
	out := make([]EffectSummary, len(rows))
	for i, r := range rows {
		out[i] = EffectSummary{Key: effect.Key(r.Key.Bytes).Text(r.Effect), Effect: r.Effect, Order: r.OrderID, State: effect.State(r.State),
			Outdated: r.Outdated, Fact: EffectFact{r.FactSource, order.Kind(r.FactKind), r.FactPayment, r.FactObject}, Version: r.Version,
			Attempts: int(r.Attempt), Tries: int(r.Attempt - r.Series), CreatedAt: r.CreatedAt.Time, DueAt: r.DueAt.Time,
			LastStatus: int(r.Status), LastClass: r.Class}
	}
	return out, nil
}

// effectsOf are the effects of one order, the oldest first.
func (tx Tx) effectsOf(ctx context.Context, orderNo int64) ([]EffectSummary, error) {
	arg := listed()
	arg.OrderNo, arg.N = orderNo, 1000
	return listEffects(ctx, tx.q, arg)
}

// EffectCase is an effect with everything that was tried.
type EffectCase struct {
	EffectSummary
	Log []EffectAttempt `json:"log"`
	// Body is what every attempt sends; empty: it was done long ago.
	Body string `json:"body,omitempty"`
}

// EffectAttempt is one attempt.
type EffectAttempt struct {
	Attempt   int       `json:"attempt"`
	StartedAt time.Time `json:"started_at"`
	LatencyMS int       `json:"latency_ms"`
	Status    int       `json:"status,omitempty"` // 0: there was no answer
	// Class is why it did not succeed; empty: it did. "lost": whoever made it came to
	// no end, and what became of it is not known.
	Class  string `json:"class,omitempty"`
	Answer string `json:"answer,omitempty"` // its first bytes
}

// ErrNoEffect: there is no effect with that key.
var ErrNoEffect = errors.New("there is no such effect")

// EffectCase reads one effect.
func (s *Store) EffectCase(ctx context.Context, key effect.Key) (c EffectCase, err error) {
	q, k := dbgen.New(s.pool), uuid(key)
	arg := listed()
	arg.Keys, arg.N = []pgtype.UUID{k}, 1
	found, err := listEffects(ctx, q, arg)
	if err == nil && len(found) == 0 {
		err = ErrNoEffect
	}
	if err != nil {
		return c, fmt.Errorf("read effect %s: %w", key.Text(""), err)
	}
	c.EffectSummary, c.Log = found[0], []EffectAttempt{}
	body, err := q.EffectBody(ctx, k)
	if err != nil {
		return c, fmt.Errorf("read effect %s: %w", c.Key, err)
	}
	c.Body = string(body)
	rows, err := q.EffectAttempts(ctx, k)
	if err != nil {
		return c, fmt.Errorf("read the attempts of effect %s: %w", c.Key, err)
	}
	for _, r := range rows {
		c.Log = append(c.Log, EffectAttempt{int(r.Attempt), r.StartedAt.Time, int(r.LatencyMs), int(r.Status), r.Class, r.Answer})
	}
	return c, nil
}

// ErrNotFailed: only an effect that failed can be sent again.
var ErrNotFailed = errors.New("it did not fail; only what failed can be sent again")

// SendEffectAgain has an effect that failed attempted anew, under the same key and
// with the same body; its attempts are counted from 1 again. Its review item is
// settled, unless somebody else has claimed that (ErrClaimed), and the audit log says
// who did it and why.
func (s *Store) SendEffectAgain(ctx context.Context, now time.Time, key effect.Key, who, reason string) error {
	err := s.InTx(ctx, func(tx Tx) error { return tx.sendAgain(ctx, now, key, who, reason) })
	if err != nil {
		return fmt.Errorf("send effect %s again: %w", strings.TrimPrefix(key.Text(""), "_"), err)
	}
	return nil
}

func (tx Tx) sendAgain(ctx context.Context, now time.Time, key effect.Key, who, reason string) error {
	switch {
	case strings.TrimSpace(who) == "":
		return fmt.Errorf("%w: it does not say who decides", ErrDecision)
	case strings.TrimSpace(reason) == "":
		return fmt.Errorf("%w: it gives no reason", ErrDecision)
	}
	rows, err := tx.q.LockEffects(ctx, uuids([][16]byte{key}))
	switch {
	case err != nil:
		return fmt.Errorf("lock effect: %w", err)
	case len(rows) == 0:
		return ErrNoEffect
	case effect.State(rows[0].State) != effect.Failed:
		return fmt.Errorf("%w: it is %s", ErrNotFailed, effect.State(rows[0].State))
	}
	text := key.Text(rows[0].Effect)
	item, err := tx.q.GetEffectItem(ctx, text)
	if err != nil {
		return fmt.Errorf("read review item: %w", err)
	}
	n, err := tx.q.SettleEffectItem(ctx, dbgen.SettleEffectItemParams{ID: item.ID, Now: timestamp(now), Who: who, Expired: timestamp(now.Add(-ClaimLease))})
	switch {
	case err != nil:
		return fmt.Errorf("settle review item: %w", err)
	case n == 0 && !item.SettledAt.Valid: // what was dismissed can still be sent
		return notClaimed(dbgen.ReviewItem{ClaimedBy: item.ClaimedBy, ClaimedAt: item.ClaimedAt}, who, now)
	}
	if err := tx.q.SendEffectAgain(ctx, timestamp(now), uuid(key)); err != nil {
		return err
	}
	return tx.AddAuditEntry(ctx, AuditEntry{At: now, Who: who, Action: "review." + string(SendAgain), Reason: reason,
		Subject: fmt.Sprintf("review item %d: %s %s", item.ID, ReviewEffectFailed, text)})
}

// FailedEffects are the keys of up to limit effects of a name that failed, the oldest
// first.
func (s *Store) FailedEffects(ctx context.Context, name string, limit int) ([]effect.Key, error) {
	rows, err := dbgen.New(s.pool).FailedEffects(ctx, name, int32(limit))
	if err != nil {
		return nil, fmt.Errorf("list effects that failed: %w", err)
	}
	keys := make([]effect.Key, len(rows))
	for i, k := range rows {
		keys[i] = k.Bytes
	}
	return keys, nil
}

// EffectCounts is how one effect stands.
type EffectCounts struct {
	Effect string
	// Due may be attempted, or should have been finished; Oldest is since when.
	Due    int64
	Oldest time.Time
	Failed int64
}

// CountEffects counts what is due and what failed, of each effect that has any.
func (s *Store) CountEffects(ctx context.Context, now time.Time) ([]EffectCounts, error) {
	rows, err := dbgen.New(s.pool).CountEffects(ctx, timestamp(now))
	if err != nil {
		return nil, fmt.Errorf("count effects: %w", err)
	}
	var out []EffectCounts
	at := map[string]int{}
	for _, r := range rows {
		i, seen := at[r.Effect]
		if !seen {
			i = len(out)
			at[r.Effect], out = i, append(out, EffectCounts{Effect: r.Effect})
		}
		if out[i].Failed += r.Failed; r.Due > 0 {
			out[i].Due, out[i].Oldest = r.Due, r.Oldest.Time
		}
	}
	return out, nil
}

// DeclareEffects writes down by which rules a role causes effects, and returns the
// roles that do it by others.
func (s *Store) DeclareEffects(ctx context.Context, now time.Time, role string) (others []string, err error) {
	rules := strings.Join(s.effects.Rules(), "\n")
	if err := dbgen.New(s.pool).DeclareEffects(ctx, role, rules, timestamp(now)); err != nil {
		return nil, fmt.Errorf("declare effects: %w", err)
	}
	return s.OtherEffects(ctx)
}

// OtherEffects are the roles that were last started with other effects than this
// store's: what they decide does not cause the same.
func (s *Store) OtherEffects(ctx context.Context) (others []string, err error) {
	rows, err := dbgen.New(s.pool).ReadEffectDeclarations(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the declared effects: %w", err)
	}
	for _, r := range rows {
		if r.Rules != strings.Join(s.effects.Rules(), "\n") {
			others = append(others, r.Role)
		}
	}
	return others, nil
}

// ForgetEffects drops what was tried for effects, and the bodies of those that are
// done, once they are older than keep. The rows live as long as their orders: their
// keys make a repeat a no-op. later: not all was done; call it again soon.
func (s *Store) ForgetEffects(ctx context.Context, now time.Time, keep time.Duration) (attempts, bodies int64, later bool, err error) {
	q, before := dbgen.New(s.pool), now.Add(-keep)
	for _, f := range []struct {
		forget func(context.Context, pgtype.Timestamptz, int32) (int64, error)
		sum    *int64
	}{{q.ForgetEffectAttempts, &attempts}, {q.ForgetEffectBodies, &bodies}} {
		for round := 0; ; round++ {
			if round == deleteRounds {
				later = true
				break
			}
			n, err := f.forget(ctx, timestamp(before), deleteRows)
			if err != nil {
				return attempts, bodies, true, fmt.Errorf("forget old effects: %w", err)
			}
			if *f.sum += n; n < deleteRows {
				break
			}
		}
	}
	return attempts, bodies, later, nil
}
