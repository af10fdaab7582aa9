package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"
)

// Seen is one event as the filter knows it: event.Event.Key, and the first
// 8 bytes of its body's SHA-256.
type Seen struct {
	Key         [16]byte
	Fingerprint int64
}

// Fingerprint shortens a body's SHA-256 to what the filter keeps.
func Fingerprint(sum [32]byte) int64 { return int64(binary.BigEndian.Uint64(sum[:8])) }

// TakeProcessedEvents enters every event that is not yet known (keys must be
// distinct), and returns for each that is known the fingerprint under which it was
// entered first; all others are new, and this transaction's. It waits for another
// transaction that is entering the same. lookFirst asks before it inserts, which
// is faster where most are known, as in a replay; the answer is the same.
func (tx Tx) TakeProcessedEvents(ctx context.Context, events []Seen, lookFirst bool) (known map[[16]byte]int64, err error) {
	known = map[[16]byte]int64{}
	// Every transaction enters keys in one order, so that no two wait for each other.
	events = sortedByKey(events)
	if lookFirst {
		if err := tx.knownProcessedEvents(ctx, events, known); err != nil {
			return nil, err
		}
		events = slices.DeleteFunc(events, func(e Seen) bool { _, ok := known[e.Key]; return ok })
	}
	if len(events) == 0 {
		return known, nil
	}
	keys, fingerprints := make([]pgtype.UUID, len(events)), make([]int64, len(events))
	for i, e := range events {
		keys[i], fingerprints[i] = uuid(e.Key), e.Fingerprint
	}
	rows, err := tx.q.AddProcessedEvents(ctx, keys, fingerprints)
	if err != nil {
		return nil, fmt.Errorf("enter processed events: %w", err)
	}
	if len(rows) == len(events) {
		return known, nil
	}
	// A statement of its own: the one that met the conflict may not see the row.
	entered := make(map[[16]byte]bool, len(rows))
	for _, k := range rows {
		entered[k.Bytes] = true
	}
	events = slices.DeleteFunc(events, func(e Seen) bool { return entered[e.Key] })
	return known, tx.knownProcessedEvents(ctx, events, known)
}

func sortedByKey(events []Seen) []Seen {
	return slices.SortedFunc(slices.Values(events), func(a, b Seen) int { return bytes.Compare(a.Key[:], b.Key[:]) })
}

// KnownProcessedEvents adds to known the fingerprint under which each event was entered
// that is known. It enters none.
func (tx Tx) KnownProcessedEvents(ctx context.Context, events []Seen, known map[[16]byte]int64) error {
	return tx.knownProcessedEvents(ctx, sortedByKey(events), known)
}

// knownProcessedEvents adds to known what is known of events, which are sorted.
func (tx Tx) knownProcessedEvents(ctx context.Context, events []Seen, known map[[16]byte]int64) error {
	if len(events) == 0 {
		return nil
	}
	keys := make([]pgtype.UUID, len(events))
	for i, e := range events {
		keys[i] = uuid(e.Key)
	}
	rows, err := tx.q.KnownProcessedEvents(ctx, keys[0], keys[len(keys)-1], keys)
	if err != nil {
		return fmt.Errorf("look up processed events: %w", err)
	}
	for _, r := range rows {
		known[r.Key.Bytes] = r.BodyFingerprint
	}
	return nil
}
