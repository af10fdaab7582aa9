package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"sluice/pkg/order"
	"sluice/pkg/postgres/internal/dbgen"
)

// Book is one line of the books: the events that one endpoint accepted in one
// hour and that ended so.
type Book struct {
	Hour     int64 // hours since the Unix epoch, of the broker's append time
	Endpoint string
	Verdict  order.Verdict
}

// Books are counts, or differences of counts.
type Books map[Book]int64

// Add counts n events appended at t.
func (b Books) Add(t time.Time, endpoint string, v order.Verdict, n int64) {
	b[Book{Hour: t.Unix() / 3600, Endpoint: endpoint, Verdict: v}] += n
}

// AddToBooks adds differences in the rows of one writing partition, which nobody
// else writes while the caller holds that partition (the merchant writes
// partition -1 of topic 0).
func (tx Tx) AddToBooks(ctx context.Context, topicID [16]byte, partition int32, books Books) error {
	keys := make([]Book, 0, len(books))
	endpoints := make([]string, 0, len(books))
	for k, n := range books {
		if n != 0 {
			keys, endpoints = append(keys, k), append(endpoints, k.Endpoint)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	slices.SortFunc(keys, func(a, b Book) int {
		return cmp.Or(cmp.Compare(a.Hour, b.Hour), cmp.Compare(a.Endpoint, b.Endpoint), cmp.Compare(a.Verdict, b.Verdict))
	})
	nos, err := tx.nameNos(ctx, endpoints...)
	if err != nil {
		return err
	}
	arg := dbgen.AddToBooksParams{TopicID: uuid(topicID), Partition: partition}
	for _, k := range keys {
		arg.Hours = append(arg.Hours, timestamp(time.Unix(k.Hour*3600, 0)))
		arg.EndpointNos = append(arg.EndpointNos, nos[k.Endpoint])
		arg.Verdicts = append(arg.Verdicts, int16(k.Verdict))
		arg.Events = append(arg.Events, books[k])
	}
	if err := tx.q.AddToBooks(ctx, arg); err != nil {
		return fmt.Errorf("add to the books: %w", err)
	}
	return nil
}

// BooksSince returns the books of every hour that began at since or later.
func (s *Store) BooksSince(ctx context.Context, since time.Time) (Books, error) {
	rows, err := dbgen.New(s.pool).SumBooks(ctx, timestamp(since))
	if err != nil {
		return nil, fmt.Errorf("read the books: %w", err)
	}
	books := make(Books, len(rows))
	for _, r := range rows {
		books.Add(r.Hour.Time, r.Endpoint, order.Verdict(r.Verdict), r.Events)
	}
	return books, nil
}

func timestamp(t time.Time) pgtype.Timestamptz { return pgtype.Timestamptz{Time: t, Valid: true} }

// timestampOrNull is a time that may not have come: null if it is zero.
func timestampOrNull(t time.Time) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: t, Valid: !t.IsZero()}
}
