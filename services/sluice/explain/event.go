package explain

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/lookup"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/webhook"
)

// stored is an event as its bytes are kept.
type stored struct {
	event.Event
	in         string // where
	at         postgres.Place
	appendedAt time.Time
}

// event tells an event's story; story is nil if it is in no order's set.
func (e *explanation) event(ctx context.Context, m postgres.Match, story *postgres.Story) error {
	out := &Event{Source: m.Source, ID: e.ID, Signature: Signature{Verdict: sigNotVerified}}
	e.answer.Event = out
	var member *postgres.StoryEvent
	if story != nil {
		if i := indexOf(story, m.Hash); i >= 0 {
			member = &story.Events[i]
		}
	}
	if member != nil {
		e.inSet(out, member, story)
	}
	if m.Partition < 0 {
		out.Signature.Why = "it came by Sluice's own API and not as a webhook"
		out.Dedupe.Verdict = "in_set"
		return nil
	}
	s, why := e.bytes(ctx, m, member)
	if s == nil {
		out.Receipt = &Receipt{Partition: m.Partition, Offset: m.Offset}
		out.Signature.Why = "its bytes are kept nowhere any more: " + why
		if member != nil {
			out.Receipt.Endpoint, out.Receipt.AppendedAt = member.Endpoint, when(member.AppendedAt)
			out.Dedupe.Verdict = "in_set"
		}
		return nil
	}
	e.receipt(out, s)
	if member == nil {
		e.read(out, s)
		items, acts, err := e.Store.ReviewsAbout(ctx, postgres.HeldSubject(m.Hash))
		if err != nil {
			return err
		}
		out.Reviews = reviewsOf(items, acts, about(m.Hash))
	}
	return e.dedupe(ctx, out, s, member)
}

// inSet is what the event's order says about it.
func (e *explanation) inSet(out *Event, m *postgres.StoryEvent, s *postgres.Story) {
	out.Type, out.Occurred = m.Type, when(m.OccurredAt)
	out.Reading = &Reading{Fact: m.Kind, Order: s.OrderID, Payment: m.Payment, Object: m.Object, Amount: m.Amount, Currency: m.Currency}
	v := verdictOf(m, s)
	out.Verdict = &v
	without, _ := s.Fold(m.Hash)
	with, _ := s.Fold()
	before, after := stateOf(without), stateOf(with)
	out.Before, out.After = &before, &after
	out.Reviews = reviewsOf(s.Reviews, s.Acts, about(m.Hash))
	for i, t := range s.History {
		if t.CauseSource == m.Source && t.CauseEventID == m.ID {
			out.Messages = append(out.Messages, e.answer.Order.Messages[i].ID)
		}
	}
}

// bytes finds the event's bytes, or says why there are none.
func (e *explanation) bytes(ctx context.Context, m postgres.Match, member *postgres.StoryEvent) (*stored, string) {
	why := e.NoTopics
	if e.Topics != nil {
		r, err := e.Topics.record(ctx, m.Place)
		if err == nil {
			s := &stored{in: "raw_topic", at: m.Place, appendedAt: r.Timestamp}
			if s.Event, err = event.Parse(r.Key, r.Value, r.Headers); err == nil && s.Hash() == m.Hash {
				return s, ""
			}
			err = errOther
		}
		why = err.Error()
	}
	kept, err := e.Store.KeptEvent(ctx, m.OrderNo, m.Hash)
	if err == nil && kept != nil {
		s := &stored{in: kept.In, at: kept.Place, appendedAt: kept.AppendedAt}
		if s.Event, err = event.Parse([]byte(e.ID), kept.Body, kept.Headers); err == nil {
			if member != nil {
				s.appendedAt = member.AppendedAt
			}
			return s, ""
		}
	}
	if err != nil {
		why += "; " + err.Error()
	}
	return nil, why
}

func (e *explanation) receipt(out *Event, s *stored) {
	sum := sha256.Sum256(s.Body)
	out.Source, out.ID, out.Type, out.Mode = s.Source, s.ID, s.Type, string(s.Mode)
	if out.Occurred == nil {
		out.Occurred = when(s.Time)
	}
	out.Receipt = &Receipt{Endpoint: s.Endpoint, Provider: s.Provider, ReceivedAt: when(s.ReceivedAt), AppendedAt: when(s.appendedAt),
		Partition: s.at.Partition, Offset: s.at.Offset, BytesFrom: s.in, BodyBytes: len(s.Body), BodySHA256: hex.EncodeToString(sum[:])}
	out.Signature = e.Secrets.signature(s.Event)
	if e.Body {
		body := string(s.Body)
		out.Body = &body
	}
}

// read reads the body of an event that is in no set, as the processor would.
func (e *explanation) read(out *Event, s *stored) {
	out.Verdict = &Verdict{Verdict: order.NoChange, Why: "it states nothing about an order"}
	ep, known := e.Secrets.Endpoints.Get(s.Endpoint)
	if !known {
		out.Verdict.Why = "it is in no order's set; what it states is not known without the endpoints file"
		return
	}
	r, err := ep.Read(webhook.StoredHeaders(s.Signature), s.Body)
	if lookup.IsOurs(s.Event) {
		r, err = lookup.Decode(s.Body)
		if r.Mode == "" {
			r.Mode = ep.Mode
		}
	}
	if err != nil {
		out.Verdict = nil
		out.Dead = &Dead{Reason: "body", Detail: err.Error()}
		return
	}
	out.Reading = &Reading{Fact: r.Fact, Order: r.Order, Payment: r.Payment, Object: r.Object, Amount: r.Amount, Currency: r.Currency}
	switch {
	case r.Mode != ep.Mode:
		out.Verdict.Reason, out.Verdict.Why = order.OtherMode, reasons[order.OtherMode].why
	case r.Fact != order.KindNone:
		out.Verdict = nil // it belongs into a set, and is in none
	}
}

// hintVerdict is what became of a hint.
func hintVerdict(t postgres.Trace) Verdict {
	if t.Hint && t.SettledAt.IsZero() {
		r := reasons[order.AwaitingProvider]
		return Verdict{Verdict: order.Held, Reason: order.AwaitingProvider, Why: "what it states is not signed; " + r.why, Release: r.release, HeldAt: when(t.HeldAt)}
	}
	return Verdict{Verdict: order.NoChange, Why: "what it states is not signed; the provider was asked, and its answer is an event of its own"}
}

// dedupe is whether it was taken over, and how often it came.
func (e *explanation) dedupe(ctx context.Context, out *Event, s *stored, member *postgres.StoryEvent) error {
	ledger, err := e.Store.Ledger(ctx)
	if err != nil {
		return err
	}
	topicID := [16]byte{}
	if e.Topics != nil {
		extent, err := e.Topics.raw.Extent(ctx)
		if err != nil {
			e.missed("the raw topic", err)
		}
		topicID = extent.TopicID
	}
	traces, err := e.Store.Traces(ctx, topicID, []postgres.Seeker{{Place: s.at, Event: s.Event}})
	if err != nil {
		return err
	}
	applied, known := ledger.Applied[topicID][s.at.Partition]
	switch t := traces[0]; {
	case s.Trust == event.Hint && !t.Dead && (t.Hint || known && s.at.Offset <= applied):
		out.Dedupe.Verdict = "hint"
		v := hintVerdict(t)
		out.Verdict = &v
	case s.Trust == event.Hint && t.Dead:
		out.Dedupe.Verdict = "dead"
	case t.Processed:
		out.Dedupe.Verdict, out.Dedupe.SeenAt = "taken_over", when(t.SeenAt)
	case t.InSet || member != nil:
		out.Dedupe.Verdict = "in_set"
	case t.Dead:
		out.Dedupe.Verdict = "dead"
	case topicID != [16]byte{} && (!known || s.at.Offset > applied):
		out.Dedupe.Verdict = "in_flight"
		out.Verdict = nil
	default:
		out.Dedupe.Verdict = "unknown"
		out.Verdict = nil
	}
	if !e.Deliveries && !e.searched || e.Topics == nil {
		return nil
	}
	if !e.searched {
		if e.records, err = e.Topics.deliveries(ctx, e.ID, e.searching("the raw topic")); err != nil {
			e.missed("other deliveries", err)
			return nil
		}
	}
	for _, r := range e.records {
		if parsed, err := event.Parse(r.Key, r.Value, r.Headers); err == nil && parsed.Hash() == s.Hash() {
			out.Dedupe.Deliveries = append(out.Dedupe.Deliveries, Delivery{r.Partition, r.Offset, r.Timestamp.UTC(), bytes.Equal(r.Value, s.Body)})
		}
	}
	return nil
}

// deadLetter tells what is known of a record that nobody could read.
func (e *explanation) deadLetter(ctx context.Context, m postgres.Match) error {
	kept, err := e.Store.KeptDeadLetter(ctx, m.Place)
	if err != nil {
		return err
	}
	if kept == nil {
		return fmt.Errorf("%w: %s", ErrUnknown, e.ID)
	}
	out := &Event{ID: e.ID, Dead: &Dead{Reason: kept.Reason, Detail: kept.Detail, SettledAt: when(kept.SettledAt), SettledBy: kept.SettledBy, SettledAs: string(kept.SettledAs)}, Dedupe: Dedupe{Verdict: "dead"},
		Signature: Signature{Verdict: sigNotVerified}}
	e.answer.Event = out
	subject := postgres.DeadLetter{Topic: kept.Topic, Partition: kept.Partition, Offset: kept.Offset}.Subject()
	items, acts, err := e.Store.ReviewsAbout(ctx, subject)
	if err != nil {
		return err
	}
	out.Reviews = reviewsOf(items, acts, func(postgres.ReviewSummary) bool { return true })
	s := &stored{in: kept.In, at: kept.Place, appendedAt: kept.AppendedAt}
	if s.Event, err = event.Parse(kept.Key, kept.Body, kept.Headers); err == nil {
		e.receipt(out, s)
		return nil
	}
	out.Signature.Why = "its headers cannot be read: " + err.Error()
	out.Receipt = &Receipt{Partition: kept.Partition, Offset: kept.Offset, AppendedAt: when(kept.AppendedAt), BytesFrom: kept.In, BodyBytes: len(kept.Body)}
	if e.Body {
		body := string(kept.Body)
		out.Body = &body
	}
	return nil
}
