package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
	"sluice/pkg/postgres/internal/dbgen"
)

// DeadLetter is a record that could not be taken over, as it was.
type DeadLetter struct {
	TopicID   [16]byte
	Topic     string
	Partition int32
	Offset    int64
	// Endpoint is where the books count it.
	Endpoint string
	// Reason is one of a bounded set; Detail says more, and no part of the body.
	Reason, Detail string
	Key            []byte
	Headers        []event.Header
	Body           []byte
	AppendedAt     time.Time
}

// Subject is the subject of its review item.
func (d DeadLetter) Subject() string {
	return DeadLetterRef{d.Topic, Place{d.Partition, d.Offset}}.String()
}

// DeadLetterRef names a dead letter by where its record lay. Without a topic it is
// whichever has a letter at that place, the newest first.
type DeadLetterRef struct {
	Topic string // full name
	Place
}

// String is TOPIC/PARTITION/OFFSET, or PARTITION/OFFSET.
func (r DeadLetterRef) String() string {
	at := fmt.Sprintf("%d/%d", r.Partition, r.Offset)
	if r.Topic == "" {
		return at
	}
	return r.Topic + "/" + at
}

// ParseDeadLetterRef reads what String writes.
func ParseDeadLetterRef(text string) (DeadLetterRef, error) {
	var r DeadLetterRef
	rest, offset, ok := cutLast(text)
	topic, partition, named := cutLast(rest)
	if !named {
		topic, partition = "", rest
	}
	p, err := strconv.ParseInt(partition, 10, 32)
	o, err2 := strconv.ParseInt(offset, 10, 64)
	if !ok || named && topic == "" || errors.Join(err, err2) != nil || p < 0 || o < 0 {
		return r, fmt.Errorf("%q is no dead letter's place: it is PARTITION/OFFSET, or TOPIC/PARTITION/OFFSET", text)
	}
	return DeadLetterRef{topic, Place{int32(p), o}}, nil
}

func cutLast(text string) (before, after string, found bool) {
	i := strings.LastIndexByte(text, '/')
	if i < 0 {
		return "", text, false
	}
	return text[:i], text[i+1:], true
}

// AddDeadLetter keeps a record, with a review item, unless it is kept already,
// and says whether it was new.
func (tx Tx) AddDeadLetter(ctx context.Context, d DeadLetter) (bool, error) {
	nos, err := tx.nameNos(ctx, d.Endpoint)
	if err != nil {
		return false, err
	}
	n, err := tx.q.AddDeadLetter(ctx, dbgen.AddDeadLetterParams{
		TopicID: uuid(d.TopicID), Partition: d.Partition, RecordOffset: d.Offset, Topic: d.Topic,
		EndpointNo: nos[d.Endpoint], Reason: d.Reason, Detail: d.Detail,
		RecordKey: d.Key, RecordHeaders: encodeHeaders(d.Headers), Body: d.Body, AppendedAt: timestamp(d.AppendedAt),
	})
	if err != nil {
		return false, fmt.Errorf("keep dead letter %s: %w", d.Subject(), err)
	}
	if n == 0 {
		return false, nil
	}
	// Where a topic was made again, an item of its former record may be there, settled.
	err = tx.q.OpenReviewItem(ctx, dbgen.OpenReviewItemParams{Kind: string(ReviewDeadLetter), Subject: d.Subject(), Detail: d.Reason + ": " + d.Detail})
	if err != nil {
		return false, fmt.Errorf("add review item: %w", err)
	}
	return true, nil
}

// Place is where a record lies in one topic.
type Place struct {
	Partition int32
	Offset    int64
}

// Compare orders places by partition, then by offset.
func (p Place) Compare(q Place) int {
	return cmp.Or(cmp.Compare(p.Partition, q.Partition), cmp.Compare(p.Offset, q.Offset))
}

// SettleDeadLetters closes the dead letters that lie at places, because a replay
// could read them and took them over, and takes them out of the books. One that was
// sent again is taken over like any other if its copy has not been; one that a
// person has discarded stays dead (see DiscardedAmong).
func (tx Tx) SettleDeadLetters(ctx context.Context, topicID [16]byte, places []Place, books Books) (settled map[Place]bool, err error) {
	if len(places) == 0 {
		return nil, nil
	}
	topics, partitions, offsets := make([][16]byte, len(places)), make([]int32, len(places)), make([]int64, len(places))
	for i, p := range places {
		topics[i], partitions[i], offsets[i] = topicID, p.Partition, p.Offset
	}
	rows, err := tx.q.SettleDeadLetters(ctx, uuids(topics), partitions, offsets)
	if err != nil {
		return nil, fmt.Errorf("settle dead letters: %w", err)
	}
	settled = map[Place]bool{}
	var subjects []string
	for _, r := range rows {
		endpoint, err := tx.nameOf(ctx, r.EndpointNo)
		if err != nil {
			return nil, err
		}
		books.Add(r.AppendedAt.Time, endpoint, order.Dead, -1)
		settled[Place{r.Partition, r.RecordOffset}] = true
		subjects = append(subjects, DeadLetter{Topic: r.Topic, Partition: r.Partition, Offset: r.RecordOffset}.Subject())
	}
	return settled, tx.settleReviewItems(ctx, ReviewDeadLetter, subjects, Readable)
}

// DeadLettersAt returns which of the places of a topic hold letters that nothing was
// made of yet.
func (tx Tx) DeadLettersAt(ctx context.Context, topicID [16]byte, places []Place) (dead map[Place]bool, err error) {
	if len(places) == 0 {
		return nil, nil
	}
	partitions, offsets := make([]int32, len(places)), make([]int64, len(places))
	for i, p := range places {
		partitions[i], offsets[i] = p.Partition, p.Offset
	}
	rows, err := tx.q.FindOpenDeadLetters(ctx, partitions, offsets, uuid(topicID))
	if err != nil {
		return nil, fmt.Errorf("find dead letters: %w", err)
	}
	dead = make(map[Place]bool, len(rows))
	for _, r := range rows {
		dead[Place{r.Partition, r.RecordOffset}] = true
	}
	return dead, nil
}

// Span is a stretch of one partition, both ends included.
type Span struct {
	Partition   int32
	First, Last int64
}

// spanColumns are spans as arguments of a query that joins them.
func spanColumns(spans []Span) (partitions []int32, firsts, lasts []int64) {
	for _, s := range spans {
		partitions, firsts, lasts = append(partitions, s.Partition), append(firsts, s.First), append(lasts, s.Last)
	}
	return partitions, firsts, lasts
}

// DiscardedAmong returns where in spans of a topic letters lie that a person has
// discarded: a replay must leave them. It costs one probe of a small index a span.
func (tx Tx) DiscardedAmong(ctx context.Context, topicID [16]byte, spans []Span) (discarded map[Place]bool, err error) {
	arg := dbgen.DiscardedDeadLettersParams{TopicID: uuid(topicID)}
	arg.Partitions, arg.Firsts, arg.Lasts = spanColumns(spans)
	rows, err := tx.q.DiscardedDeadLetters(ctx, arg)
	if err != nil {
		return nil, fmt.Errorf("find discarded dead letters: %w", err)
	}
	discarded = make(map[Place]bool, len(rows))
	for _, r := range rows {
		discarded[Place{r.Partition, r.RecordOffset}] = true
	}
	return discarded, nil
}

// PublishDeadLetters hands up to limit dead letters that are not yet in the
// dead-letter topic to publish, oldest first, and marks each for which it
// returned nil. It stops at the first that fails. The rows are locked meanwhile,
// and a crash after publish leads to a second one: at least once.
func (s *Store) PublishDeadLetters(ctx context.Context, limit int, publish func(DeadLetter) error) (published int, err error) {
	var failed error
	err = s.InTx(ctx, func(tx Tx) error {
		published, failed = 0, nil
		rows, err := tx.q.UnpublishedDeadLetters(ctx, int32(limit))
		if err != nil {
			return fmt.Errorf("read dead letters: %w", err)
		}
		for _, r := range rows {
			d := DeadLetter{TopicID: r.TopicID.Bytes, Topic: r.Topic, Partition: r.Partition, Offset: r.RecordOffset,
				Reason: r.Reason, Detail: r.Detail, Key: r.RecordKey, Body: r.Body, AppendedAt: r.AppendedAt.Time}
			if err := json.Unmarshal(r.RecordHeaders, &d.Headers); err != nil {
				return fmt.Errorf("read headers of dead letter %s: %w", d.Subject(), err)
			}
			if err := publish(d); err != nil {
				failed = fmt.Errorf("publish dead letter %s: %w", d.Subject(), err)
				return nil // those before it stay marked
			}
			if err := tx.q.MarkDeadLetterPublished(ctx, r.TopicID, r.Partition, r.RecordOffset); err != nil {
				return fmt.Errorf("mark dead letter %s: %w", d.Subject(), err)
			}
			published++
		}
		return nil
	})
	return published, errors.Join(err, failed)
}
