// Package explain says everything about one event, order or payment: how it came
// in, what was made of it, and why. It changes nothing.
//
// Its path: explain.go finds out what an id is, event.go and order.go tell its
// story from the store and topics.go from Kafka, signature.go verifies again,
// print.go shows the answer to people.
package explain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
)

// Explainer answers questions about one deployment.
type Explainer struct {
	Store *postgres.Store
	// Topics is nil if Kafka cannot be reached; NoTopics says why.
	Topics   *Topics
	NoTopics string
	Secrets  Secrets
	// Searching is told what takes long, before it begins; may be nil.
	Searching func(what string) Progress
}

// Question is what somebody wants to know.
type Question struct {
	ID string
	// Source and As (event, order, payment, dead_letter) choose where an id means
	// several things; empty: any.
	Source, As string
	// Body adds the body, Deliveries all records of the event.
	Body, Deliveries bool
}

// ErrUnknown: nothing has that id.
var ErrUnknown = errors.New("nothing is known under that id")

// Ambiguous is the error of an id that means several things.
type Ambiguous struct {
	ID      string
	Matches []postgres.Match
}

// Error lists what it can be.
func (a *Ambiguous) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q is several things; choose with --source or --as:", a.ID)
	for _, m := range a.Matches {
		fmt.Fprintf(&b, "\n  --as %s", m.Kind)
		if m.Source != "" {
			fmt.Fprintf(&b, " --source %s", m.Source)
		}
		if m.OrderID != "" && m.Kind != postgres.IsOrder {
			fmt.Fprintf(&b, "  (order %s)", m.OrderID)
		}
	}
	return b.String()
}

// explanation is one answer that is being put together.
type explanation struct {
	*Explainer
	Question
	answer *Answer
	// records are what a search of the raw topic found, in which nothing is missing.
	records  []kafka.Record
	searched bool
}

// Explain answers a question: ErrUnknown, *Ambiguous, or what failed.
func (x *Explainer) Explain(ctx context.Context, q Question) (*Answer, error) {
	e := &explanation{Explainer: x, Question: q, answer: &Answer{Asked: q.ID}}
	if x.Topics == nil {
		e.answer.NotLookedAt = append(e.answer.NotLookedAt, "Kafka: "+x.NoTopics)
	}
	m, err := e.find(ctx)
	if err != nil {
		return nil, err
	}
	e.answer.Is = string(m.Kind)
	var story *postgres.Story
	if m.OrderNo != 0 {
		s, err := x.Store.StoryOf(ctx, m.OrderNo)
		if err != nil {
			return nil, err
		}
		story = &s
		e.answer.Order = orderOf(story, m.Hash)
		e.publish(ctx)
	}
	switch m.Kind {
	case postgres.IsPayment:
		e.answer.Payment = &Payment{Source: m.Source, ID: q.ID, Order: m.OrderID}
	case postgres.IsEvent:
		err = e.event(ctx, m, story)
	case postgres.IsDeadLetter:
		err = e.deadLetter(ctx, m)
	}
	return e.answer, err
}

// missed notes what could not be looked at.
func (e *explanation) missed(what string, err error) {
	e.answer.NotLookedAt = append(e.answer.NotLookedAt, fmt.Sprintf("%s: %v", what, err))
}

// publish finds the order's messages on the status topic.
func (e *explanation) publish(ctx context.Context) {
	if e.Topics == nil || e.answer.Order.ID == "" {
		return
	}
	if err := e.Topics.published(ctx, e.answer.Order.ID, e.answer.Order.Messages); err != nil {
		e.missed("the status topic", err)
	}
}

// find finds out what the id is: first by index, then in the sets of all orders,
// then among the records themselves.
func (e *explanation) find(ctx context.Context) (postgres.Match, error) {
	all, err := e.Store.Find(ctx, e.ID)
	if err != nil {
		return postgres.Match{}, err
	}
	matches := e.fitting(all)
	if !slices.ContainsFunc(matches, func(m postgres.Match) bool { return m.Kind != postgres.IsDeadLetter }) && e.wants(postgres.IsEvent) {
		e.searching("the sets of all orders")
		events, err := e.Store.FindEvents(ctx, e.ID)
		if err != nil {
			return postgres.Match{}, err
		}
		if events, err = e.counting(ctx, events); err != nil {
			return postgres.Match{}, err
		}
		if found := e.fitting(events); len(found) > 0 {
			matches = found
		}
	}
	if len(matches) == 0 && e.wants(postgres.IsEvent) {
		if matches, err = e.search(ctx); err != nil {
			return postgres.Match{}, err
		}
	}
	if len(matches) > 1 && matches[0].Kind == postgres.IsDeadLetter && matches[len(matches)-1].Kind == postgres.IsDeadLetter {
		matches = matches[len(matches)-1:] // one record that came several times; the newest
	}
	switch len(matches) {
	case 0:
		return postgres.Match{}, fmt.Errorf("%w: %s%s", ErrUnknown, e.ID, e.whereNot())
	case 1:
		return matches[0], nil
	}
	return postgres.Match{}, &Ambiguous{e.ID, matches}
}

func (e *explanation) whereNot() string {
	if e.Topics == nil {
		return " (Kafka was not looked at: " + e.NoTopics + ")"
	}
	return ""
}

func (e *explanation) wants(kind postgres.MatchKind) bool { return e.As == "" || e.As == string(kind) }

func (e *explanation) fitting(all []postgres.Match) (fit []postgres.Match) {
	for _, m := range all {
		if e.wants(m.Kind) && (e.Source == "" || m.Source == e.Source) {
			fit = append(fit, m)
		}
	}
	return fit
}

// counting leaves out the sets in which an event was dismissed because it counts
// in another one, where a person linked it to.
func (e *explanation) counting(ctx context.Context, events []postgres.Match) ([]postgres.Match, error) {
	if len(events) < 2 {
		return events, nil
	}
	var kept []postgres.Match
	for _, m := range events {
		twins := slices.ContainsFunc(events, func(o postgres.Match) bool { return o.Hash == m.Hash && o.OrderNo != m.OrderNo })
		if twins {
			s, err := e.Store.StoryOf(ctx, m.OrderNo)
			if err != nil {
				return nil, err
			}
			if i := indexOf(&s, m.Hash); i >= 0 && s.Events[i].Reason == order.Dismissed {
				continue
			}
		}
		kept = append(kept, m)
	}
	return kept, nil
}

func indexOf(s *postgres.Story, hash [16]byte) int {
	return slices.IndexFunc(s.Events, func(e postgres.StoryEvent) bool { return e.Hash == hash })
}

func (e *explanation) searching(what string) Progress {
	if e.Searching == nil {
		return Progress{}
	}
	return e.Searching(what)
}

// search looks for the id among the keys of the raw topic: an event that states
// nothing about an order is in no set.
func (e *explanation) search(ctx context.Context) (matches []postgres.Match, err error) {
	if e.Topics == nil {
		return nil, nil
	}
	if !e.searched {
		if e.records, err = e.Topics.deliveries(ctx, e.ID, e.searching("the raw topic")); err != nil {
			return nil, err
		}
		e.searched = true
	}
	for _, r := range e.records {
		parsed, err := event.Parse(r.Key, r.Value, r.Headers)
		if err != nil || e.Source != "" && parsed.Source != e.Source {
			continue
		}
		if hash := parsed.Hash(); !slices.ContainsFunc(matches, func(m postgres.Match) bool { return m.Hash == hash }) {
			matches = append(matches, postgres.Match{Kind: postgres.IsEvent, Source: parsed.Source, Hash: hash, Place: postgres.Place{Partition: r.Partition, Offset: r.Offset}})
		}
	}
	return matches, nil
}
