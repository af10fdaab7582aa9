package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/pkg/order"
	"sluice/pkg/postgres/internal/dbgen"
)

// Story is everything the store knows about one order, for people.
type Story struct {
	OrderNo      int64
	OrderID      string // empty: a stub, known by a payment only
	Registered   bool
	RegisteredAt time.Time // zero if it is not
	Reference    string    // the shop's own note
	// Amount, Paid and Refunded are minor units of Currency.
	Status                 order.Status
	Amount, Paid, Refunded int64
	Currency               string
	Dispute                order.Dispute
	Version                int64
	// Events is the order's set, by the provider's time, undated ones last.
	Events []StoryEvent
	// History is its transitions, by version.
	History []Transition
	// Effects are what its changes caused outside, the oldest first.
	Effects []EffectSummary
	// Reviews are all review items about the order and its events, and Acts what
	// people did about them, both the oldest first.
	Reviews []ReviewSummary
	Acts    []Act
	// Hints are those that wait for their provider's answer and name the order, or a
	// payment of its events; the oldest first. Nobody has signed them.
	Hints []WaitingHint
	// Asking are the open look-ups of the order, of its events' payments and of what its
	// hints name, the one that is asked next first.
	Asking []Asking
}

// Asking is something that a provider is being asked about.
type Asking struct {
	Source, Object string
	Since          time.Time
	// Hanging: it is for the order, which is pending, or for an event that is held.
	Hanging  bool
	Attempts int
	Problem  LookupProblem // of the last attempt
	// NextAt is when it is asked again; while a look-up is under way, when that one is
	// given up.
	NextAt   time.Time
	UnderWay bool
}

// WaitingHint is a hint whose provider has not answered yet.
type WaitingHint struct {
	Source, ID, Type string
	Object           string // what the provider is asked about
	AppendedAt       time.Time
	HeldAt           time.Time
	// Attempts is how often the provider was asked since, and Problem why the last time
	// was in vain.
	Attempts int
	Problem  LookupProblem
	Place    `json:"-"`
}

// Act is one line of the audit log about a review item.
type Act struct {
	At                           time.Time
	Who, Action, Subject, Reason string
	Item                         int64 // the review item's id
}

// StoryEvent is one event of an order's set and what became of it.
type StoryEvent struct {
	Source, ID, Type string
	Kind             order.Kind
	Verdict          order.Verdict
	Reason           order.Reason
	OccurredAt       time.Time // provider's; zero: undated
	AppendedAt       time.Time // broker's
	Amount           int64     // minor units of Currency
	Currency         string
	Payment, Object  string

	Hash     [16]byte `json:"-"`
	Endpoint string   `json:"-"`
	// Place is where its record lies in the raw topic; Partition -1: in none.
	Place `json:"-"`
	// HeldAt is when it began to be held, zero if it is not; DueAt when a person
	// should look, zero if there is a review item.
	HeldAt time.Time `json:"-"`
	DueAt  time.Time `json:"-"`
}

// entry is the event as the fold takes it.
func (e *StoryEvent) entry() order.Entry {
	out := order.Entry{Hash: e.Hash, Source: e.Source, Kind: e.Kind, Payment: e.Payment, Object: e.Object, Amount: e.Amount, Currency: e.Currency}
	if !e.OccurredAt.IsZero() {
		out.Time = e.OccurredAt.UnixMilli()
	}
	if e.Kind.IsDecision() {
		out.Target, out.Object = targetOf(e.Object), ""
	}
	return out
}

// Decides is the hash of the entry that a decision is about, zero for any other
// event.
func (e *StoryEvent) Decides() [16]byte { return e.entry().Target }

// Fold folds the story's events but those with the hashes in without: what the
// order would be if they had never come. Entries are the events that were folded, in the
// fold's own order; their judgements are at the same places.
func (s *Story) Fold(without ...[16]byte) (o order.Outcome, entries []order.Entry) {
	var reg *order.Registration
	for i := range s.Events {
		e := s.Events[i].entry()
		switch {
		case slices.Contains(without, e.Hash):
		case e.Kind != order.KindRegistered:
			entries = append(entries, e)
		case reg == nil || e.Time >= reg.Time:
			reg = &order.Registration{Hash: e.Hash, Amount: e.Amount, Currency: e.Currency, Time: e.Time}
		}
	}
	slices.SortFunc(entries, order.Compare)
	return order.Fold(reg, entries), entries
}

// ErrNoOrder: neither a registration nor an event named that order.
var ErrNoOrder = errors.New("no such order")

// Story tells one order's story from one snapshot; ErrNoOrder if it is unknown.
func (s *Store) Story(ctx context.Context, orderID string) (Story, error) {
	st, err := s.story(ctx, `order_id = $1`, orderID)
	if err != nil {
		return Story{}, fmt.Errorf("read the story of order %s: %w", orderID, err)
	}
	return st, nil
}

// StoryOf is Story of an order by its number: stubs have no id.
func (s *Store) StoryOf(ctx context.Context, orderNo int64) (Story, error) {
	st, err := s.story(ctx, `order_no = $1`, orderNo)
	if err != nil {
		return Story{}, fmt.Errorf("read the story of order number %d: %w", orderNo, err)
	}
	return st, nil
}

func (s *Store) story(ctx context.Context, where string, key any) (st Story, err error) {
	read := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pgx.BeginTxFunc(ctx, s.pool, read, func(tx pgx.Tx) error {
		var registered *time.Time
		err := tx.QueryRow(ctx, `
			SELECT order_no, coalesce(order_id, ''), registered_at, reference, status, amount, paid, refunded, currency, dispute, version
			FROM orders WHERE `+where, key).
			Scan(&st.OrderNo, &st.OrderID, &registered, &st.Reference, &st.Status, &st.Amount, &st.Paid, &st.Refunded, &st.Currency, &st.Dispute, &st.Version)
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrNoOrder
		}
		if err != nil {
			return err
		}
		if st.Registered = registered != nil; st.Registered {
			st.RegisteredAt = *registered
		}
		if err := st.readEvents(ctx, tx); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `SELECT `+transitionColumns+` FROM order_transitions t WHERE t.order_no = $1 ORDER BY t.version`, st.OrderNo)
		if err != nil {
			return err
		}
		if st.History, err = pgx.CollectRows(rows, scanTransition); err != nil {
			return err
		}
		if err := st.readHints(ctx, tx); err != nil {
			return err
		}
		if err := st.readAsking(ctx, tx); err != nil {
			return err
		}
		if st.Effects, err = (Tx{store: s, tx: tx, q: dbgen.New(tx)}).effectsOf(ctx, st.OrderNo); err != nil {
			return err
		}
		return st.readReviews(ctx, tx)
	})
	return st, err
}

func (s *Story) readEvents(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `
		SELECT n.name, m.name, e.event_id, e.event_type, e.kind, e.verdict, e.reason, e.occurred_at, e.appended_at, e.amount,
		       e.currency, e.payment_id, e.object_id, e.event_hash, e.partition, e.record_offset, h.held_at, h.due_at
		FROM order_events e JOIN names n ON n.name_no = e.source_no JOIN names m ON m.name_no = e.endpoint_no
		LEFT JOIN held_events h ON h.order_no = e.order_no AND h.event_hash = e.event_hash
		WHERE e.order_no = $1 ORDER BY e.occurred_at = 0, e.occurred_at, e.appended_at, e.event_hash`, s.OrderNo)
	if err != nil {
		return err
	}
	s.Events, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (e StoryEvent, err error) {
		var (
			ms        int64
			held, due *time.Time
		)
		err = row.Scan(&e.Source, &e.Endpoint, &e.ID, &e.Type, &e.Kind, &e.Verdict, &e.Reason, &ms, &e.AppendedAt, &e.Amount,
			&e.Currency, &e.Payment, &e.Object, &e.Hash, &e.Partition, &e.Offset, &held, &due)
		if ms != 0 {
			e.OccurredAt = time.UnixMilli(ms)
		}
		if held != nil {
			e.HeldAt = *held
		}
		if due != nil {
			e.DueAt = *due
		}
		return e, err
	})
	return err
}

// payments are those of the story's events, with their sources.
func (s *Story) payments() (sources, payments []string) {
	for i := range s.Events {
		if e := &s.Events[i]; e.Payment != "" {
			sources, payments = append(sources, e.Source), append(payments, e.Payment)
		}
	}
	return sources, payments
}

func (s *Story) readAsking(ctx context.Context, tx pgx.Tx) error {
	sources, payments := s.payments()
	for _, h := range s.Hints {
		sources, payments = append(sources, h.Source), append(payments, h.Object)
	}
	rows, err := tx.Query(ctx, `
		WITH objects AS (
			SELECT n.name_no, u.payment AS object FROM names n
			JOIN (SELECT unnest($2::text[]) AS source, unnest($3::text[]) AS payment) u ON u.source = n.name
			UNION
			SELECT n.name_no, $1 FROM names n WHERE $1 <> '')
		SELECT n.name, l.object, l.armed_at, l.order_no IS NOT NULL, l.attempts, l.problem, l.due_at, l.claimed_by IS NOT NULL
		FROM objects o JOIN lookups l ON l.source_no = o.name_no AND l.object = o.object JOIN names n ON n.name_no = l.source_no
		WHERE l.answered < l.armed ORDER BY l.due_at, l.object LIMIT 100`, s.OrderID, sources, payments)
	if err != nil {
		return err
	}
	s.Asking, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (a Asking, err error) {
		return a, row.Scan(&a.Source, &a.Object, &a.Since, &a.Hanging, &a.Attempts, &a.Problem, &a.NextAt, &a.UnderWay)
	})
	return err
}

func (s *Story) readHints(ctx context.Context, tx pgx.Tx) error {
	sources, payments := s.payments()
	rows, err := tx.Query(ctx, `
		WITH waiting AS (
			SELECT * FROM hints WHERE settled_at IS NULL AND order_id = $1 AND order_id <> ''
			UNION
			SELECT h.* FROM hints h JOIN names n ON n.name_no = h.source_no
			JOIN (SELECT unnest($2::text[]) AS source, unnest($3::text[]) AS payment) u ON u.source = n.name AND u.payment = h.object
			WHERE h.settled_at IS NULL)
		SELECT n.name, w.event_id, w.event_type, w.object, w.appended_at, w.held_at, w.partition, w.record_offset, l.attempts, l.problem
		FROM waiting w JOIN names n ON n.name_no = w.source_no JOIN lookups l ON l.source_no = w.source_no AND l.object = w.object
		ORDER BY w.held_at, w.event_id LIMIT 100`, s.OrderID, sources, payments)
	if err != nil {
		return err
	}
	s.Hints, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (h WaitingHint, err error) {
		return h, row.Scan(&h.Source, &h.ID, &h.Type, &h.Object, &h.AppendedAt, &h.HeldAt, &h.Partition, &h.Offset, &h.Attempts, &h.Problem)
	})
	return err
}

// readReviews reads the review items by order and by event: notes about an event
// do not name its order.
func (s *Story) readReviews(ctx context.Context, tx pgx.Tx) (err error) {
	subjects := make([]string, len(s.Events))
	for i := range s.Events {
		subjects[i] = HeldSubject(s.Events[i].Hash)
	}
	s.Reviews, s.Acts, err = readReviews(ctx, tx, s.OrderNo, subjects)
	return err
}

// ReviewsAbout returns the review items with one of the subjects, and what people
// did about them: of events that are in no order's set, and of dead letters.
func (s *Store) ReviewsAbout(ctx context.Context, subjects ...string) (reviews []ReviewSummary, acts []Act, err error) {
	read := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pgx.BeginTxFunc(ctx, s.pool, read, func(tx pgx.Tx) error {
		reviews, acts, err = readReviews(ctx, tx, 0, subjects)
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read review items: %w", err)
	}
	return reviews, acts, nil
}

func readReviews(ctx context.Context, tx pgx.Tx, orderNo int64, subjects []string) (reviews []ReviewSummary, acts []Act, err error) {
	rows, err := tx.Query(ctx, `
		SELECT id, kind, subject, detail, created_at, settled_at, coalesce(settled_by, ''), coalesce(decision, '') FROM review_items
		WHERE order_no = $1 OR kind = ANY($2::text[]) AND subject = ANY($3::text[]) ORDER BY id`,
		orderNo, []string{string(ReviewHeld), string(ReviewBodyChanged), string(ReviewFutureTime), string(ReviewCrossed), string(ReviewDeadLetter)}, subjects)
	if err != nil {
		return nil, nil, err
	}
	reviews, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (r ReviewSummary, err error) {
		return r, row.Scan(&r.ID, &r.Kind, &r.Subject, &r.Detail, &r.CreatedAt, &r.SettledAt, &r.SettledBy, &r.Decision)
	})
	if err != nil || len(reviews) == 0 {
		return nil, nil, err
	}
	likes := make([]string, len(reviews))
	for i, r := range reviews {
		likes[i] = fmt.Sprintf("review item %d: %%", r.ID)
	}
	rows, err = tx.Query(ctx, `SELECT at, who, action, subject, reason FROM audit_log WHERE subject LIKE ANY($1::text[]) ORDER BY id`, likes)
	if err != nil {
		return nil, nil, err
	}
	acts, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (a Act, err error) {
		err = row.Scan(&a.At, &a.Who, &a.Action, &a.Subject, &a.Reason)
		_, _ = fmt.Sscanf(a.Subject, "review item %d:", &a.Item) // it was found by it
		return a, err
	})
	return reviews, acts, err
}
