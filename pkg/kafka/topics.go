package kafka

import (
	"strconv"
	"time"
)

// The topics, without the deployment's prefix.
const (
	Raw         = "webhooks.raw.v1"
	DeadLetters = "webhooks.dead-letters.v1"
	Status      = "orders.status.v1"
	Latest      = "orders.latest.v1"
	// Cursors is the relay's own: how far each shard of the outbox is published.
	Cursors = "sluice.relay-cursors.v1"
)

// CursorShards is how many partitions Cursors has: one for each shard.
const CursorShards = 2

// Group is the processor's consumer group, without the deployment's prefix.
const Group = "sluice-processor"

// TopicSpec is one topic as data.
type TopicSpec struct {
	Name       string
	Key        string // what its records are keyed by
	Partitions int32
	// Config are topic settings in Kafka's own names.
	Config map[string]string
}

// MaxBody is the largest webhook body ingress takes, in bytes. It stays below
// MaxMessage, with room for key, headers and batch framing, so that no accepted
// body is one that the broker refuses.
const MaxBody = 1 << 20

// MaxMessage is the largest record batch the topics with bodies take, in bytes.
const MaxMessage = MaxBody + 256<<10

const maxMessageKey = "max.message.bytes"

var maxMessage = strconv.Itoa(MaxMessage)

const day = 24 * time.Hour

// Topics are all of Sluice's topics. The raw topic keeps by broker append time:
// a sender's clock must not decide how long its record lives.
var Topics = []TopicSpec{
	{Raw, "event id", 6, map[string]string{"message.timestamp.type": "LogAppendTime", "retention.ms": ms(30 * day), maxMessageKey: maxMessage}},
	{DeadLetters, "event id", 1, map[string]string{"message.timestamp.type": "LogAppendTime", "retention.ms": ms(90 * day), maxMessageKey: maxMessage}},
	{Status, "order id", 6, map[string]string{"retention.ms": ms(30 * day)}},
	{Latest, "order id", 6, map[string]string{"cleanup.policy": "compact"}},
	{Cursors, "shard", CursorShards, map[string]string{"cleanup.policy": "compact"}},
}

func ms(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
