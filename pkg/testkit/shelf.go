package testkit

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"

	"sluice/pkg/kafka"
)

// Shelf takes records in place of Kafka and keeps them, in the order in which they
// came, or refuses them. Its zero value takes them; it is safe for concurrent use.
type Shelf struct {
	mu      sync.Mutex
	records []kafka.Record
	away    bool
}

// Produce keeps the record, or says that no broker is there.
func (s *Shelf) Produce(_ context.Context, r kafka.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return errors.New("no broker")
	}
	s.records = append(s.records, r)
	return nil
}

// Ready is nil: what is refused is refused when it comes.
func (s *Shelf) Ready() error { return nil }

// Away makes it refuse what comes from now on, or take it again.
func (s *Shelf) Away(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

// Records are those that it has kept.
func (s *Shelf) Records() []kafka.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.records)
}

// Buffer holds what is written into it; it may be read meanwhile, as a test reads the
// log of a role that runs.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write is io.Writer's.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String is all that was written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
