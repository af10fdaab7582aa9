package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"sluice/pkg/event"
	"sluice/pkg/postgres/internal/dbgen"
)

// SettledAs is how a dead letter was settled.
type SettledAs string

// How a dead letter is settled.
const (
	WasReadable  SettledAs = "readable"   // a replay over its place could read it
	WasSentAgain SettledAs = "sent_again" // a person: its copy counts, the letter stays dead in the books
	WasDiscarded SettledAs = "discarded"  // a person: it counts for nothing, and a replay leaves it
)

// DeadLetterSummary is a dead letter as a list shows it.
type DeadLetterSummary struct {
	// Letter is TOPIC/PARTITION/OFFSET: where its record lay.
	Letter    string   `json:"letter"`
	TopicID   [16]byte `json:"-"`
	Topic     string   `json:"topic"`
	Partition int32    `json:"partition"`
	Offset    int64    `json:"offset"`
	Endpoint  string   `json:"endpoint"`
	// Reason is one of headers, endpoint, body, no_order, refused.
	Reason string `json:"reason"`
	Detail string `json:"detail"`
	// Key is the record's: the event's id, if it was one of ours.
	Key        []byte    `json:"-"`
	Size       int       `json:"body_bytes"`
	AppendedAt time.Time `json:"appended_at"`
	CreatedAt  time.Time `json:"created_at"`
	// PublishedAt is when Kafka acknowledged it in the dead-letter topic.
	PublishedAt *time.Time `json:"published_at,omitempty"`
	// Item is its review item, with which it is claimed and settled.
	Item         int64      `json:"review_item"`
	ClaimedBy    string     `json:"claimed_by,omitempty"`
	ClaimedUntil *time.Time `json:"claimed_until,omitempty"`
	// SettledAt is nil while it is open; SettledBy is empty if it settled itself.
	SettledAt *time.Time `json:"settled_at,omitempty"`
	SettledBy string     `json:"settled_by,omitempty"`
	SettledAs SettledAs  `json:"settled_as,omitempty"`
	// RevivedAt is when a replay took it over: the books count it as dead until then.
	RevivedAt *time.Time `json:"revived_at,omitempty"`
}

// DeadLetterFilter chooses dead letters; its zero value all that are open.
type DeadLetterFilter struct {
	Endpoint, Reason string    // empty: any
	Since            time.Time // when they died
	Settled, All     bool      // those that are settled, or both, in place of those that are open
	// After continues behind the last letter of the page before.
	After *DeadLetterSummary
	Limit int
}

// ListDeadLetters lists dead letters, the oldest first.
func (s *Store) ListDeadLetters(ctx context.Context, now time.Time, f DeadLetterFilter) ([]DeadLetterSummary, error) {
	arg := dbgen.ListDeadLettersParams{Endpoint: f.Endpoint, Reason: f.Reason, Since: timestamp(f.Since), Open: f.All || !f.Settled, Settled: f.All || f.Settled,
		AfterAt: pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}, N: int32(f.Limit)}
	if f.After != nil {
		arg.AfterAt, arg.AfterPartition, arg.AfterOffset = timestamp(f.After.CreatedAt), f.After.Partition, f.After.Offset
	}
	rows, err := dbgen.New(s.pool).ListDeadLetters(ctx, arg)
	if err != nil {
		return nil, fmt.Errorf("list dead letters: %w", err)
	}
	letters := make([]DeadLetterSummary, len(rows))
	for i, r := range rows {
		letters[i] = letterOf(now, dbgen.GetDeadLetterRow{TopicID: r.TopicID, Topic: r.Topic, Partition: r.Partition, RecordOffset: r.RecordOffset,
			Endpoint: r.Endpoint, Reason: r.Reason, Detail: r.Detail, RecordKey: r.RecordKey, AppendedAt: r.AppendedAt, CreatedAt: r.CreatedAt,
			PublishedAt: r.PublishedAt, SettledAt: r.SettledAt, SettledBy: r.SettledBy, SettledAs: r.SettledAs, RevivedAt: r.RevivedAt,
			Item: r.Item, ClaimedBy: r.ClaimedBy, ClaimedAt: r.ClaimedAt}, int(r.Size))
	}
	return letters, nil
}

func letterOf(now time.Time, r dbgen.GetDeadLetterRow, size int) DeadLetterSummary {
	d := DeadLetterSummary{Letter: DeadLetterRef{r.Topic, Place{r.Partition, r.RecordOffset}}.String(), TopicID: r.TopicID.Bytes, Topic: r.Topic,
		Partition: r.Partition, Offset: r.RecordOffset, Endpoint: r.Endpoint, Reason: r.Reason, Detail: r.Detail, Key: r.RecordKey, Size: size,
		AppendedAt: r.AppendedAt.Time, CreatedAt: r.CreatedAt.Time, PublishedAt: timeOrNil(r.PublishedAt), Item: r.Item, SettledAt: timeOrNil(r.SettledAt),
		SettledBy: r.SettledBy.String, SettledAs: SettledAs(r.SettledAs.String), RevivedAt: timeOrNil(r.RevivedAt)}
	if until := r.ClaimedAt.Time.Add(ClaimLease); d.SettledAt == nil && r.ClaimedBy.Valid && until.After(now) {
		d.ClaimedBy, d.ClaimedUntil = r.ClaimedBy.String, &until
	}
	return d
}

func timeOrNil(t pgtype.Timestamptz) *time.Time {
	if !t.Valid {
		return nil
	}
	return &t.Time
}

// DeadLetterCount is how many letters of one endpoint died of one reason, and what
// became of them.
type DeadLetterCount struct {
	Endpoint  string `json:"endpoint"`
	Reason    string `json:"reason"`
	Open      int64  `json:"open"`
	SentAgain int64  `json:"sent_again"`
	Discarded int64  `json:"discarded"`
	Readable  int64  `json:"readable"`
	// Oldest is when the oldest open one died; nil if none is open.
	Oldest *time.Time `json:"oldest_open,omitempty"`
}

// CountDeadLetters counts dead letters by endpoint and reason; of f, only Endpoint,
// Reason and Since count.
func (s *Store) CountDeadLetters(ctx context.Context, f DeadLetterFilter) ([]DeadLetterCount, error) {
	rows, err := dbgen.New(s.pool).CountDeadLetters(ctx, f.Endpoint, f.Reason, timestamp(f.Since))
	if err != nil {
		return nil, fmt.Errorf("count dead letters: %w", err)
	}
	counts := make([]DeadLetterCount, len(rows))
	for i, r := range rows {
		counts[i] = DeadLetterCount{r.Endpoint, r.Reason, r.Open, r.SentAgain, r.Discarded, r.Readable, timeOrNil(r.Oldest)}
	}
	return counts, nil
}

// OpenDeadLetters is how many are not settled.
func (s *Store) OpenDeadLetters(ctx context.Context) (int64, error) {
	n, err := dbgen.New(s.pool).CountOpenDeadLetters(ctx)
	if err != nil {
		return 0, fmt.Errorf("count open dead letters: %w", err)
	}
	return n, nil
}

// ErrNoDeadLetter: none has that place.
var ErrNoDeadLetter = errors.New("there is no such dead letter")

// DeadLetterCase is a dead letter with its record.
type DeadLetterCase struct {
	DeadLetterSummary
	Headers []event.Header `json:"-"`
	Body    []byte         `json:"-"`
	// Acts are what people did about it.
	Acts []Act `json:"-"`
}

// DeadLetterCase reads one dead letter: ErrNoDeadLetter, or what failed.
func (s *Store) DeadLetterCase(ctx context.Context, now time.Time, ref DeadLetterRef) (DeadLetterCase, error) {
	r, err := dbgen.New(s.pool).GetDeadLetter(ctx, ref.Topic, ref.Partition, ref.Offset)
	if errors.Is(err, pgx.ErrNoRows) {
		return DeadLetterCase{}, fmt.Errorf("dead letter %s: %w", ref, ErrNoDeadLetter)
	}
	c := DeadLetterCase{Body: r.Body}
	if err == nil {
		err = json.Unmarshal(r.RecordHeaders, &c.Headers)
	}
	if err != nil {
		return c, fmt.Errorf("read dead letter %s: %w", ref, err)
	}
	c.DeadLetterSummary = letterOf(now, r, len(r.Body))
	_, c.Acts, err = s.ReviewsAbout(ctx, c.Letter)
	return c, err
}
