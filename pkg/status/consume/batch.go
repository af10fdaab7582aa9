package consume

import (
	"errors"
	"fmt"

	"sluice/pkg/kafka"
	"sluice/pkg/status"
)

// Batch is what an application is given at once: messages that are new to it.
type Batch struct {
	// Messages, in the order of the topic, are each newer than everything that the
	// application had of its order. A message holds the whole state of its order, so
	// that who wants only the present takes the last one of each (Newest).
	Messages []status.Message
	// Gaps are versions that are missing before some of Messages.
	Gaps []Gap
	// Repeats is how many messages were dropped: the application had that version,
	// or a later one.
	Repeats int
	// Snapshot: the messages are from orders.latest.v1. They say where orders stand,
	// not how they got there, and so have no gaps.
	Snapshot bool
}

// Newest is the last message of each order, in the order of the topic.
func (b Batch) Newest() []status.Message {
	at := make(map[string]int, len(b.Messages))
	for i, m := range b.Messages {
		at[m.OrderID] = i
	}
	newest := make([]status.Message, 0, len(at))
	for i, m := range b.Messages {
		if at[m.OrderID] == i {
			newest = append(newest, m)
		}
	}
	return newest
}

// Gap says that the versions From to To of an order, both included, did not come
// before the message that lies at Partition and Offset of orders.status.v1. That
// message is valid all the same. Sluice leaves no gaps: the versions have outlived
// the topic's retention, or the group's offsets were moved past them.
type Gap struct {
	OrderID   string
	From, To  int64
	Partition int32
	Offset    int64
}

// String says which versions are missing, and where that showed.
func (g Gap) String() string {
	return fmt.Sprintf("order %q: versions %d to %d did not come before partition %d, offset %d", g.OrderID, g.From, g.To, g.Partition, g.Offset)
}

// Again says, for people, how to get the missing versions.
func (g Gap) Again() string {
	return fmt.Sprintf("read partition %d of orders.status.v1 again from its first offset up to %d, as consume.Missing does; "+
		"GET /v1/orders/{order_id} of the merchant role and `sluice explain %s` show the order's whole history", g.Partition, g.Offset, g.OrderID)
}

// Unreadable is a record that holds no message of this format.
type Unreadable struct {
	Record kafka.Record
	Err    error
}

// Error says where the record lies and what is wrong with it.
func (u Unreadable) Error() string {
	return fmt.Sprintf("topic %s, partition %d, offset %d: %v", u.Record.Topic, u.Record.Partition, u.Record.Offset, u.Err)
}

// Unwrap is what is wrong with it.
func (u Unreadable) Unwrap() error { return u.Err }

// placed is a message, and where it lies.
type placed struct {
	status.Message
	partition int32
	offset    int64
}

var errKey = errors.New("the key is not the order id of the message")

// decode reads records; none is left out.
func decode(records []kafka.Record) (messages []placed, unreadable []Unreadable) {
	messages = make([]placed, 0, len(records))
	for _, r := range records {
		m, err := status.Decode(r.Value)
		if err == nil && string(r.Key) != m.OrderID {
			err = errKey
		}
		if err != nil {
			unreadable = append(unreadable, Unreadable{r, err})
			continue
		}
		messages = append(messages, placed{m, r.Partition, r.Offset})
	}
	return messages, unreadable
}

// orders are the orders that messages are about, each once.
func orders(messages []placed) []string {
	seen := make(map[string]bool, len(messages))
	var ids []string
	for _, m := range messages {
		if !seen[m.OrderID] {
			seen[m.OrderID] = true
			ids = append(ids, m.OrderID)
		}
	}
	return ids
}

// judge decides what of messages is new to whoever has the versions last, which it
// leaves as they are. The version decides and nothing else: a message is new if it
// is greater. Before the offsets rebuilt of each partition nothing is called a gap.
func judge(messages []placed, last map[string]int64, rebuilt map[int32]int64) Batch {
	b := Batch{Messages: make([]status.Message, 0, len(messages))}
	seen := make(map[string]int64, len(messages))
	for _, m := range messages {
		before, ok := seen[m.OrderID]
		if !ok {
			before = last[m.OrderID]
		}
		if m.Version <= before {
			b.Repeats++
			continue
		}
		if m.Version > before+1 && m.offset >= rebuilt[m.partition] {
			b.Gaps = append(b.Gaps, Gap{m.OrderID, before + 1, m.Version - 1, m.partition, m.offset})
		}
		seen[m.OrderID] = m.Version
		b.Messages = append(b.Messages, m.Message)
	}
	return b
}
