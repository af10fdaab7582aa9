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

// AddProcessedEvents enters every event that is not yet known (keys must be
// distinct) and returns the keys it entered: what is new. It waits for another
// transaction that is entering the same. lookFirst asks before it inserts, which
// is three times faster where most are known, as in a replay; the answer is the
// same.
func (tx Tx) AddProcessedEvents(ctx context.Context, events []Seen, lookFirst bool) (fresh map[[16]byte]bool, err error) {
	fresh = make(map[[16]byte]bool, len(events))
	slices.SortFunc(events, func(a, b Seen) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	if lookFirst {
		known, err := tx.KnownProcessedEvents(ctx, events)
		if err != nil {
			return nil, err
		}
		events = slices.DeleteFunc(slices.Clone(events), func(e Seen) bool { _, ok := known[e.Key]; return ok })
	}
	if len(events) == 0 {
		return fresh, nil
	}
	keys, fingerprints := make([]pgtype.UUID, len(events)), make([]int64, len(events))
	for i, e := range events {
		keys[i], fingerprints[i] = uuid(e.Key), e.Fingerprint
	}
	rows, err := tx.q.AddProcessedEvents(ctx, keys, fingerprints)
	if err != nil {
		return nil, fmt.Errorf("enter processed events: %w", err)
	}
	for _, k := range rows {
		fresh[k.Bytes] = true
	}
	return fresh, nil
}

// KnownProcessedEvents returns the fingerprint under which each known event was
// entered first.
func (tx Tx) KnownProcessedEvents(ctx context.Context, events []Seen) (map[[16]byte]int64, error) {
	known := make(map[[16]byte]int64, len(events))
	if len(events) == 0 {
		return known, nil
	}
	low, high := events[0].Key, events[0].Key
	keys := make([]pgtype.UUID, len(events))
	for i, e := range events {
		keys[i] = uuid(e.Key)
		if bytes.Compare(e.Key[:], low[:]) < 0 {
			low = e.Key
		}
		if bytes.Compare(e.Key[:], high[:]) > 0 {
			high = e.Key
		}
	}
	rows, err := tx.q.KnownProcessedEvents(ctx, uuid(low), uuid(high), keys)
	if err != nil {
		return nil, fmt.Errorf("look up processed events: %w", err)
	}
	for _, r := range rows {
		known[r.Key.Bytes] = r.BodyFingerprint
	}
	return known, nil
}

// DropProcessedEvents takes back what this transaction entered: a record that
// turned out to be unreadable is not taken over.
func (tx Tx) DropProcessedEvents(ctx context.Context, keys [][16]byte) error {
	if len(keys) == 0 {
		return nil
	}
	if err := tx.q.DeleteProcessedEvents(ctx, uuids(keys)); err != nil {
		return fmt.Errorf("drop processed events: %w", err)
	}
	return nil
}
