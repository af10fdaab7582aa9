package relay

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// noShard is what concerns the relay as a whole.
const noShard int16 = -1

// troubles are why the relay cannot publish, of each shard the newest.
type troubles struct {
	mu sync.Mutex
	of map[int16]error
}

func (t *troubles) set(shard int16, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		delete(t.of, shard)
		return
	}
	t.of[shard] = err
}

// all is one error for as many shards as have one.
func (t *troubles) all() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.of) == 0 {
		return nil
	}
	shards := make([]int16, 0, len(t.of))
	for s := range t.of {
		shards = append(shards, s)
	}
	first := t.of[slices.Min(shards)]
	if len(t.of) == 1 {
		return first
	}
	return errors.Join(first, fmt.Errorf("and %d more shards", len(t.of)-1))
}
