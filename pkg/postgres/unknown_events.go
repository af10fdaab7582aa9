package postgres

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"
)

// unknownEvents asks for keys ($3) that lie in [$1, $2], and has the answer in two
// arrays. In rows, scanned one by one, a key cost 0.9 µs of this side's CPU, in
// arrays 0.17, and the look-up took 3.5 µs in place of 2.7 on a busy machine (2026-12).
const unknownEvents = `SELECT array_agg(key), array_agg(body_fingerprint)
FROM (SELECT key, body_fingerprint FROM processed_events WHERE key BETWEEN $1 AND $2 AND key = ANY($3::uuid[]) ORDER BY key) known`

// UnknownEvents returns the places of those events that were never entered, or with
// another body, ascending. It writes nothing and locks nothing. It is fastest where
// keys lie close together.
func (s *Store) UnknownEvents(ctx context.Context, events []Seen) (unknown []int, err error) {
	if len(events) == 0 {
		return nil, nil
	}
	order := make([]int32, len(events))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(bytes.Compare(events[a].Key[:], events[b].Key[:]), cmp.Compare(a, b))
	})
	low, high := events[order[0]].Key, events[order[len(order)-1]].Key
	keys, fingerprints, err := s.known(ctx, low[:], high[:], uuidArray(events, order))
	if err != nil {
		return nil, fmt.Errorf("look up processed events: %w", err)
	}
	k := 0
	for _, i := range order {
		e := &events[i]
		for k < keys.n && bytes.Compare(keys.at(k), e.Key[:]) < 0 {
			k++
		}
		if k == keys.n || !bytes.Equal(keys.at(k), e.Key[:]) || int64(binary.BigEndian.Uint64(fingerprints.at(k))) != e.Fingerprint {
			unknown = append(unknown, int(i))
		}
	}
	slices.Sort(unknown)
	return unknown, nil
}

// known is one statement in the protocol's own form; see unknownEvents.
func (s *Store) known(ctx context.Context, low, high, wanted []byte) (keys, fingerprints array, err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return array{}, array{}, err
	}
	defer conn.Release()
	const name = "unknown_events"
	if _, err := conn.Conn().Prepare(ctx, name, unknownEvents); err != nil { // once a connection
		return array{}, array{}, err
	}
	binaries := []int16{pgtype.BinaryFormatCode, pgtype.BinaryFormatCode, pgtype.BinaryFormatCode}
	answer := conn.Conn().PgConn().ExecPrepared(ctx, name, [][]byte{low, high, wanted}, binaries, binaries[:1]).Read()
	if answer.Err != nil {
		return array{}, array{}, answer.Err
	}
	row := answer.Rows[0] // an aggregate has one
	if keys, err = arrayOf(row[0], 16); err == nil {
		fingerprints, err = arrayOf(row[1], 8)
	}
	if err == nil && keys.n != fingerprints.n {
		err = fmt.Errorf("%d keys and %d fingerprints", keys.n, fingerprints.n)
	}
	return keys, fingerprints, err
}

// array is a one-dimensional array without nulls, of elements of one size, as the
// protocol's binary form has it.
type array struct {
	n, size  int
	elements []byte
}

const arrayHeader = 20 // dimensions, null flag, element type, length, lower bound

func arrayOf(b []byte, size int) (array, error) {
	if len(b) == 0 || len(b) >= 12 && binary.BigEndian.Uint32(b) == 0 {
		return array{}, nil // NULL or empty
	}
	n := (len(b) - arrayHeader) / (4 + size)
	if len(b) < arrayHeader || binary.BigEndian.Uint32(b) != 1 || int(binary.BigEndian.Uint32(b[12:])) != n || len(b) != arrayHeader+n*(4+size) {
		return array{}, fmt.Errorf("an array of %d bytes is not one of elements of %d bytes", len(b), size)
	}
	return array{n, size, b[arrayHeader:]}, nil
}

func (a array) at(i int) []byte {
	from := i*(4+a.size) + 4
	return a.elements[from : from+a.size]
}

// uuidArray is the keys of events in an order as a uuid[].
func uuidArray(events []Seen, order []int32) []byte {
	b := make([]byte, 0, arrayHeader+20*len(order))
	for _, n := range [...]uint32{1, 0, pgtype.UUIDOID, uint32(len(order)), 1} {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	for _, i := range order {
		b = append(binary.BigEndian.AppendUint32(b, 16), events[i].Key[:]...)
	}
	return b
}
