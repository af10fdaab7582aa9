package demo

import (
	"context"
	"errors"
	"sync"
	"time"

	"sluice/pkg/audit"
	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
	"sluice/pkg/status"
)

// topic is what a consumer of the status topic has seen of the day's orders.
type topic struct {
	mu       sync.Mutex
	messages map[string][]seen // by order id, in the order of the topic
	first    time.Time
	err      error
}

// seen is one message where it lies.
type seen struct {
	status.Message
	partition int32
	offset    int64
}

// watch consumes the status topic as any downstream team would, until ctx ends.
func (d Demo) watch(ctx context.Context, stories []story) *topic {
	t := &topic{messages: map[string][]seen{}}
	for _, s := range stories {
		t.messages[s.id] = nil
	}
	go func() {
		err := kafka.Watch(ctx, d.Kafka, d.Log, d.Kafka.Topic(kafka.Status), func(r kafka.Record) bool {
			t.add(r)
			return true
		})
		t.mu.Lock()
		defer t.mu.Unlock()
		if !errors.Is(err, context.Canceled) {
			t.err = err
		}
	}()
	return t
}

func (t *topic) add(r kafka.Record) {
	m, err := status.Decode(r.Value)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.err = err
		return
	}
	have, ours := t.messages[m.OrderID]
	if !ours {
		return
	}
	if t.first.IsZero() {
		t.first = time.Now()
	}
	t.messages[m.OrderID] = append(have, seen{m, r.Partition, r.Offset})
}

func (t *topic) firstSeen() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.first
}

// of is an order's messages without repeats: a relay may publish one twice after
// a crash, with the same version.
func (t *topic) of(id string) (unique []seen) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range t.messages[id] {
		if n := len(unique); n == 0 || m.Version > unique[n-1].Version {
			unique = append(unique, m)
		}
	}
	return unique
}

func (t *topic) problem() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// settle waits until every order has ended as it must and the books are quiet,
// and returns how they stand; after settleTimeout it returns how they stand then.
func (d Demo) settle(ctx context.Context, stories []story, t *topic) (map[string]postgres.Story, audit.Books, error) {
	limited, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		books, err := audit.Read(ctx, d.Kafka, d.Store, d.Log)
		if err != nil {
			return nil, books, err
		}
		ends, settled := map[string]postgres.Story{}, books.InFlight == 0 && books.Unaccounted() == 0
		for _, s := range stories {
			end, err := d.Store.Story(ctx, s.id)
			if err != nil {
				return nil, books, err
			}
			ends[s.id] = end
			settled = settled && s.problem(end, t.of(s.id)) == ""
		}
		if err := t.problem(); err != nil {
			return nil, books, err
		}
		if settled {
			return ends, books, nil
		}
		select {
		case <-tick.C:
		case <-limited.Done():
			return ends, books, ctx.Err()
		}
	}
}
