package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"sluice/pkg/postgres/internal/dbgen"
)

// ErrBeingSent: another program of the same person is sending it just now.
var ErrBeingSent = errors.New("it is being sent just now")

// ErrWithheld is for publish: it will not send a letter, and says why around it.
var ErrWithheld = errors.New("not sent")

// SendDeadLettersAgain claims the letters for a person as their review items are
// claimed (nobody else then acts on them), hands what could be claimed to publish,
// the oldest first, and settles those for which it returned nil: letter, review item
// and audit log in one transaction. others says of every letter that was not sent,
// by Letter, why; err is what failed altogether, and then nothing was settled.
//
// publish returns an error for each letter that Kafka has not acknowledged; one that it
// withholds (ErrWithheld) is no longer claimed, unless it was before. The letters' rows
// are locked meanwhile, for which the database gives 10 seconds: hand it few at a time.
// A crash after publish leads to a second record of the same event, which is a duplicate.
func (s *Store) SendDeadLettersAgain(ctx context.Context, now time.Time, who, reason string, letters []DeadLetterSummary,
	publish func([]DeadLetter) []error) (sent []string, others map[string]error, err error) {
	others = map[string]error{}
	if strings.TrimSpace(reason) == "" {
		return nil, others, fmt.Errorf("send dead letters again: %w: it gives no reason", ErrDecision)
	}
	topics, partitions, offsets := make([][16]byte, 0, len(letters)), make([]int32, 0, len(letters)), make([]int64, 0, len(letters))
	claimed := map[string]bool{} // true: not before this
	for _, d := range letters {
		if err := s.ClaimReviewItem(ctx, now, d.Item, who); err != nil {
			if !refused(err) {
				return nil, others, fmt.Errorf("send dead letter %s again: %w", d.Letter, err)
			}
			others[d.Letter] = err
			continue
		}
		topics, partitions, offsets = append(topics, d.TopicID), append(partitions, d.Partition), append(offsets, d.Offset)
		claimed[d.Letter] = d.ClaimedBy != who
	}
	var missing map[string]bool
	err = s.InTx(ctx, func(tx Tx) error {
		sent, missing = nil, maps.Clone(claimed)
		rows, err := tx.q.TakeDeadLetters(ctx, dbgen.TakeDeadLettersParams{TopicIds: uuids(topics), Partitions: partitions, RecordOffsets: offsets, Who: who})
		if err != nil || len(rows) == 0 {
			return err
		}
		taken := make([]DeadLetter, len(rows))
		for i, r := range rows {
			taken[i] = DeadLetter{TopicID: r.TopicID.Bytes, Topic: r.Topic, Partition: r.Partition, Offset: r.RecordOffset,
				Reason: r.Reason, Detail: r.Detail, Key: r.RecordKey, Body: r.Body, AppendedAt: r.AppendedAt.Time}
			if err := json.Unmarshal(r.RecordHeaders, &taken[i].Headers); err != nil {
				return fmt.Errorf("read headers of dead letter %s: %w", taken[i].Subject(), err)
			}
		}
		arg := dbgen.SettleSentDeadLettersParams{Now: timestamp(now), Who: who}
		var items, withheld []int64
		for i, failed := range publish(taken) {
			d := &taken[i]
			delete(missing, d.Subject())
			if failed != nil {
				if others[d.Subject()] = failed; claimed[d.Subject()] && errors.Is(failed, ErrWithheld) {
					withheld = append(withheld, rows[i].Item)
				}
				continue
			}
			sent = append(sent, d.Subject())
			items = append(items, rows[i].Item)
			arg.TopicIds, arg.Partitions, arg.RecordOffsets = append(arg.TopicIds, rows[i].TopicID), append(arg.Partitions, d.Partition), append(arg.RecordOffsets, d.Offset)
			err := tx.AddAuditEntry(ctx, AuditEntry{At: now, Who: who, Action: "dead_letter.send_again", Reason: reason,
				Subject: fmt.Sprintf("review item %d: %s %s", rows[i].Item, ReviewDeadLetter, d.Subject())})
			if err != nil {
				return err
			}
		}
		if _, err := tx.q.SettleSentDeadLetters(ctx, arg); err != nil {
			return fmt.Errorf("settle dead letters: %w", err)
		}
		if err := tx.q.SettleSentReviewItems(ctx, timestamp(now), who, items); err != nil {
			return fmt.Errorf("settle review items: %w", err)
		}
		if len(withheld) == 0 {
			return nil
		}
		return wrap("give review items back", tx.q.GiveBackReviewItems(ctx, withheld, who))
	})
	if err != nil {
		return nil, others, fmt.Errorf("send dead letters again: %w", err)
	}
	for letter := range missing {
		others[letter] = fmt.Errorf("send dead letter %s again: %w", letter, ErrBeingSent)
	}
	return sent, others, nil
}

// refused says whether an error is about the item, and not about the database.
func refused(err error) bool {
	for _, known := range [...]error{ErrNoReviewItem, ErrSettled, ErrClaimed, ErrNotClaimed, ErrDecision} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// DiscardDeadLetter claims a letter's review item and dismisses it, which settles the
// letter: it counts for nothing, and no replay takes it over. The bytes stay.
func (s *Store) DiscardDeadLetter(ctx context.Context, now time.Time, who, reason string, d DeadLetterSummary) error {
	err := s.ClaimReviewItem(ctx, now, d.Item, who)
	if err == nil {
		_, err = s.Decide(ctx, now, Decision{Item: d.Item, Action: Dismiss, Who: who, Reason: reason})
	}
	if err != nil {
		return fmt.Errorf("discard dead letter %s: %w", d.Letter, err)
	}
	return nil
}

// lockDeadLetter takes a letter's row before its review item's: in the order in which
// whoever sends it again takes them.
func (tx Tx) lockDeadLetter(ctx context.Context, subject string) (DeadLetterRef, error) {
	ref, err := ParseDeadLetterRef(subject)
	if err == nil {
		err = tx.q.LockDeadLetters(ctx, ref.Topic, ref.Partition, ref.Offset)
	}
	if err != nil {
		return ref, fmt.Errorf("lock dead letter %s: %w", subject, err)
	}
	return ref, nil
}

func (tx Tx) discardDeadLetter(ctx context.Context, now time.Time, who string, ref DeadLetterRef) error {
	err := tx.q.DiscardDeadLetters(ctx, dbgen.DiscardDeadLettersParams{Topic: ref.Topic, Partition: ref.Partition, RecordOffset: ref.Offset, Now: timestamp(now), Who: who})
	if err != nil {
		return fmt.Errorf("settle dead letter %s: %w", ref, err)
	}
	return nil
}
