package dry

import (
	"context"

	"github.com/jackc/pgx/v5/pgtype"

	"sluice/pkg/postgres/internal/dbgen"
)

type letterKey struct {
	topicID   [16]byte
	partition int32
	offset    int64
}

// letter is a dead letter without its bytes; open: a replay that can read it revives it.
type letter struct {
	row  dbgen.SettleDeadLettersRow
	open bool
}

// AddDeadLetter adds a letter unless it is there, and returns how many it added.
func (t *Tables) AddDeadLetter(ctx context.Context, arg dbgen.AddDeadLetterParams) (int64, error) {
	k := letterKey{arg.TopicID.Bytes, arg.Partition, arg.RecordOffset}
	if _, ok := t.letters[k]; ok {
		return 0, nil
	}
	rows, err := t.ReadDeadLetters(ctx, []pgtype.UUID{arg.TopicID}, []int32{arg.Partition}, []int64{arg.RecordOffset})
	if err != nil || len(rows) > 0 {
		return 0, err
	}
	put(t, t.letters, k, letter{open: true, row: dbgen.SettleDeadLettersRow{Topic: arg.Topic, Partition: arg.Partition, RecordOffset: arg.RecordOffset,
		EndpointNo: arg.EndpointNo, AppendedAt: arg.AppendedAt}})
	return 1, nil
}

// SettleDeadLetters revives those among places that are open.
func (t *Tables) SettleDeadLetters(ctx context.Context, topics []pgtype.UUID, partitions []int32, offsets []int64) (rows []dbgen.SettleDeadLettersRow, err error) {
	there, err := t.ReadDeadLetters(ctx, topics, partitions, offsets)
	if err != nil {
		return nil, err
	}
	for i, p := range partitions {
		k := letterKey{topics[i].Bytes, p, offsets[i]}
		if l, ok := t.letters[k]; ok && l.open {
			rows = append(rows, l.row)
			put(t, t.letters, k, letter{row: l.row})
		}
	}
	for _, r := range there {
		k := letterKey{topics[0].Bytes, r.Partition, r.RecordOffset} // places are of one topic
		if _, ok := t.letters[k]; ok || !r.Open {
			continue
		}
		row := dbgen.SettleDeadLettersRow{Topic: r.Topic, Partition: r.Partition, RecordOffset: r.RecordOffset, EndpointNo: r.EndpointNo, AppendedAt: r.AppendedAt}
		rows = append(rows, row)
		put(t, t.letters, k, letter{row: row})
	}
	return rows, nil
}

// FindOpenDeadLetters finds those among places of which nothing was made yet.
func (t *Tables) FindOpenDeadLetters(ctx context.Context, partitions []int32, offsets []int64, topicID pgtype.UUID) (rows []dbgen.FindOpenDeadLettersRow, err error) {
	there, err := t.Querier.FindOpenDeadLetters(ctx, partitions, offsets, topicID)
	if err != nil {
		return nil, err
	}
	for _, r := range there {
		if _, ok := t.letters[letterKey{topicID.Bytes, r.Partition, r.RecordOffset}]; !ok {
			rows = append(rows, r)
		}
	}
	for i, p := range partitions {
		if l, ok := t.letters[letterKey{topicID.Bytes, p, offsets[i]}]; ok && l.open {
			rows = append(rows, dbgen.FindOpenDeadLettersRow{Partition: p, RecordOffset: offsets[i]})
		}
	}
	return rows, nil
}
