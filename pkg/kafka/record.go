package kafka

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/pkg/event"
)

// Record is one record of a topic. Partition, Offset and Timestamp are the
// broker's and only set on records that were read.
type Record struct {
	Topic     string
	Partition int32
	Offset    int64
	Timestamp time.Time
	Key       []byte
	Value     []byte // nil: a tombstone
	Headers   []event.Header
}

func (r Record) kgo() *kgo.Record {
	hs := make([]kgo.RecordHeader, len(r.Headers))
	for i, h := range r.Headers {
		hs[i] = kgo.RecordHeader{Key: h.Name, Value: h.Value}
	}
	return &kgo.Record{Topic: r.Topic, Key: r.Key, Value: r.Value, Headers: hs}
}

func fromKgo(k *kgo.Record) Record {
	hs := make([]event.Header, len(k.Headers))
	for i, h := range k.Headers {
		hs[i] = event.Header{Name: h.Key, Value: h.Value}
	}
	return Record{Topic: k.Topic, Partition: k.Partition, Offset: k.Offset, Timestamp: k.Timestamp,
		Key: k.Key, Value: k.Value, Headers: hs}
}
