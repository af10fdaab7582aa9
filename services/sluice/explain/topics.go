package explain

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
	"sluice/pkg/status"
)

// Topics is what is asked of Kafka.
type Topics struct {
	cfg         kafka.Config
	log         *slog.Logger
	raw, status *kafka.Offsets
}

// OpenTopics connects to cfg's brokers.
func OpenTopics(ctx context.Context, cfg kafka.Config, log *slog.Logger) (*Topics, error) {
	raw, err := kafka.NewOffsets(ctx, cfg, log, cfg.Topic(kafka.Raw))
	if err != nil {
		return nil, err
	}
	st, err := kafka.NewOffsets(ctx, cfg, log, cfg.Topic(kafka.Status))
	if err != nil {
		raw.Close()
		return nil, err
	}
	return &Topics{cfg: cfg, log: log, raw: raw, status: st}, nil
}

// Close gives the connections back.
func (t *Topics) Close() {
	t.raw.Close()
	t.status.Close()
}

// Why a record is not there.
var (
	errExpired = errors.New("the raw topic does not keep it any more")
	errAbsent  = errors.New("the raw topic has no record there")
	errOther   = errors.New("another event lies there: the topic was made again")
)

// record reads the record at a place.
func (t *Topics) record(ctx context.Context, at postgres.Place) (r kafka.Record, err error) {
	extent, err := t.raw.Extent(ctx)
	if err != nil {
		return r, err
	}
	start, known := extent.Start[at.Partition]
	switch {
	case known && at.Offset < start:
		return r, errExpired
	case at.Offset >= extent.End[at.Partition]:
		return r, errAbsent
	}
	err = errAbsent
	read := kafka.Read(ctx, t.cfg, t.log, t.cfg.Topic(kafka.Raw), []kafka.Range{{Partition: at.Partition, From: at.Offset, Before: at.Offset + 1}},
		func(found kafka.Record) bool {
			r, err = found, nil
			return true
		})
	if read != nil {
		err = read
	}
	return r, err
}

// Progress is told how many steps long work has, and then of each.
type Progress struct {
	Total, Step func(int)
}

// deliveries reads the whole partition of a key and returns the records that have it.
func (t *Topics) deliveries(ctx context.Context, id string, progress Progress) (found []kafka.Record, err error) {
	extent, err := t.raw.Extent(ctx)
	if err != nil {
		return nil, err
	}
	p := kafka.PartitionOf([]byte(id), len(extent.Start))
	rg := kafka.Range{Partition: p, From: extent.Start[p], Before: extent.End[p]}
	if progress.Total != nil {
		progress.Total(int(rg.Before - rg.From))
	}
	err = kafka.Read(ctx, t.cfg, t.log, t.cfg.Topic(kafka.Raw), []kafka.Range{rg}, func(r kafka.Record) bool {
		if string(r.Key) == id {
			found = append(found, r)
		}
		if progress.Step != nil {
			progress.Step(1)
		}
		return true
	})
	return found, err
}

// A message is looked for from a little before its change on: the relay's clock
// and the database's differ. After perMessage records it counts as not found.
const (
	clocks     = time.Minute
	perMessage = 100_000
)

// published finds where the messages of an order lie.
func (t *Topics) published(ctx context.Context, orderID string, messages []Message) error {
	extent, err := t.status.Extent(ctx)
	if err != nil {
		return err
	}
	p := kafka.PartitionOf([]byte(orderID), len(extent.Start))
	missing := map[string]*Message{}
	for i := range messages {
		missing[strconv.FormatInt(messages[i].Version, 10)] = &messages[i]
	}
	read := int64(0) // up to here
	for i := range messages {
		m := &messages[i]
		if m.Published != nil {
			continue
		}
		at, err := t.status.At(ctx, m.ChangedAt.Add(-clocks))
		if err != nil {
			return err
		}
		from := max(at[p], read)
		rg := kafka.Range{Partition: p, From: from, Before: min(extent.End[p], from+perMessage)}
		err = kafka.Read(ctx, t.cfg, t.log, t.cfg.Topic(kafka.Status), []kafka.Range{rg}, func(r kafka.Record) bool {
			read = r.Offset + 1
			if string(r.Key) != orderID {
				return true
			}
			for _, h := range r.Headers {
				if found := missing[string(h.Value)]; h.Name == status.HeaderVersion && found != nil {
					found.Published = &Published{r.Partition, r.Offset}
					delete(missing, string(h.Value))
				}
			}
			return len(missing) > 0
		})
		if err != nil {
			return err
		}
	}
	return nil
}
