package postgres

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// names are the numbers of the few long names (sources, endpoints) that every
// row carries. A number never changes, so that a copy in memory is exact, as long
// as it is the same database: a transaction that fails empties it, because a
// database that is restored from a backup breaks every connection first.
type names struct {
	mu     sync.RWMutex
	number map[string]int16
	name   map[int16]string
}

func (n *names) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.number, n.name = map[string]int16{}, map[int16]string{}
}

func (n *names) lookup(name string) (int16, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	no, ok := n.number[name]
	return no, ok
}

// nameNos returns the number of each name, making those that are new. It may
// wait for another transaction that makes the same, so it comes before any lock
// on an order.
func (tx Tx) nameNos(ctx context.Context, wanted ...string) (map[string]int16, error) {
	nos := make(map[string]int16, len(wanted))
	find := func() (missing []string) {
		for _, w := range wanted {
			no, ok := tx.own[w]
			if !ok {
				no, ok = tx.store.names.lookup(w)
			}
			if ok {
				nos[w] = no
			} else if !slices.Contains(missing, w) {
				missing = append(missing, w)
			}
		}
		return missing
	}
	missing := find()
	if missing == nil {
		return nos, nil
	}
	if err := tx.loadNames(ctx, nil); err != nil {
		return nil, err
	}
	if missing = find(); missing == nil {
		return nos, nil
	}
	slices.Sort(missing)
	if err := tx.q.AddNames(ctx, missing); err != nil {
		return nil, fmt.Errorf("add names: %w", err)
	}
	if err := tx.loadNames(ctx, missing); err != nil {
		return nil, err
	}
	find()
	return nos, nil
}

// nameOf returns the name that has a number.
func (tx Tx) nameOf(ctx context.Context, no int16) (string, error) {
	for range 2 {
		tx.store.names.mu.RLock()
		name, ok := tx.store.names.name[no]
		tx.store.names.mu.RUnlock()
		if ok {
			return name, nil
		}
		for own, n := range tx.own {
			if n == no {
				return own, nil
			}
		}
		if err := tx.loadNames(ctx, nil); err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("read names: no name has number %d", no)
}

// loadNames reads every name. What this transaction added itself (or may have)
// is only its own until it commits: a copy in memory would outlive a roll-back.
func (tx Tx) loadNames(ctx context.Context, added []string) error {
	rows, err := tx.q.ListNames(ctx)
	if err != nil {
		return fmt.Errorf("read names: %w", err)
	}
	n := &tx.store.names
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range rows {
		if _, own := tx.own[r.Name]; own || slices.Contains(added, r.Name) {
			tx.own[r.Name] = r.NameNo
		} else {
			n.number[r.Name], n.name[r.NameNo] = r.NameNo, r.Name
		}
	}
	return nil
}
