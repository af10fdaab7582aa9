package consume

import (
	"context"
	"sync"

	"sluice/pkg/status"
)

// Versions is the state that a consumer keeps: the last version that it has
// applied of each order. It belongs where the orders themselves are kept, so that
// both are written in one transaction.
type Versions interface {
	// Last returns the last version applied of each of these orders, without those
	// it never heard of. It is asked once a batch.
	Last(ctx context.Context, orders []string) (map[string]int64, error)
}

// Memory is Versions of a process that keeps its orders in memory: both are gone
// with it, and it is rebuilt from orders.latest.v1 at every start. Use it without a
// group. The zero value is empty. Safe for concurrent use.
type Memory struct {
	mu   sync.Mutex
	last map[string]int64
}

// Last implements Versions.
func (m *Memory) Last(_ context.Context, orders []string) (map[string]int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := make(map[string]int64, len(orders))
	for _, id := range orders {
		if v, ok := m.last[id]; ok {
			found[id] = v
		}
	}
	return found, nil
}

// Keep remembers that messages are applied. An older version never replaces a
// newer one.
func (m *Memory) Keep(messages ...status.Message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last == nil {
		m.last = map[string]int64{}
	}
	for _, s := range messages {
		m.last[s.OrderID] = max(m.last[s.OrderID], s.Version)
	}
}
