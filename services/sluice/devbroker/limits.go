package devbroker

import (
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// What this broker cannot do without losing records (each measured 2026-11):
// a partition that retention or a deletion empties restarts at offset 0, and a
// kill during compaction loses what was being rewritten. So topics keep by size,
// far above one batch, and never compact, whatever a client asks for.
const (
	retentionBytes    = 1 << 30
	minRetentionBytes = 64 << 20
)

// limit rewrites one topic setting to what the broker can keep.
func limit(name string, value *string) *string {
	text := func(s string) *string { return &s }
	switch name {
	case "retention.ms":
		return text("-1")
	case "cleanup.policy":
		return text("delete")
	case "retention.bytes":
		if value == nil {
			return text(strconv.Itoa(retentionBytes))
		}
		if n, err := strconv.ParseInt(*value, 10, 64); err == nil && n >= 0 && n < minRetentionBytes {
			return text(strconv.Itoa(minRetentionBytes))
		}
	}
	return value
}

// enforce puts limit before every request that creates or alters a topic, and
// refuses to delete records.
func enforce(c *kfake.Cluster) {
	on := func(key kmsg.Key, do func(kmsg.Request) kmsg.Response) {
		c.ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			resp := do(req)
			return resp, nil, resp != nil
		})
	}
	on(kmsg.CreateTopics, func(r kmsg.Request) kmsg.Response {
		req := r.(*kmsg.CreateTopicsRequest)
		for i := range req.Topics {
			for j := range req.Topics[i].Configs {
				cfg := &req.Topics[i].Configs[j]
				cfg.Value = limit(cfg.Name, cfg.Value)
			}
		}
		return nil
	})
	on(kmsg.AlterConfigs, func(r kmsg.Request) kmsg.Response {
		req := r.(*kmsg.AlterConfigsRequest)
		for i := range req.Resources {
			for j := range req.Resources[i].Configs {
				cfg := &req.Resources[i].Configs[j]
				cfg.Value = limit(cfg.Name, cfg.Value)
			}
		}
		return nil
	})
	on(kmsg.IncrementalAlterConfigs, func(r kmsg.Request) kmsg.Response {
		req := r.(*kmsg.IncrementalAlterConfigsRequest)
		for i := range req.Resources {
			for j := range req.Resources[i].Configs {
				cfg := &req.Resources[i].Configs[j]
				if limited := limit(cfg.Name, cfg.Value); limited != cfg.Value {
					cfg.Op, cfg.Value = kmsg.IncrementalAlterConfigOpSet, limited
				}
			}
		}
		return nil
	})
	on(kmsg.DeleteRecords, func(r kmsg.Request) kmsg.Response {
		req := r.(*kmsg.DeleteRecordsRequest)
		resp := req.ResponseKind().(*kmsg.DeleteRecordsResponse)
		for _, t := range req.Topics {
			topic := kmsg.NewDeleteRecordsResponseTopic()
			topic.Topic = t.Topic
			for _, p := range t.Partitions {
				partition := kmsg.NewDeleteRecordsResponseTopicPartition()
				partition.Partition, partition.ErrorCode = p.Partition, kerr.PolicyViolation.Code
				topic.Partitions = append(topic.Partitions, partition)
			}
			resp.Topics = append(resp.Topics, topic)
		}
		return resp
	})
}

// brokerConfig are the defaults of topics that state nothing themselves. The
// broker's own cleaner would compact; it runs so rarely that it never does, and
// Broker.Run applies retention instead.
var brokerConfig = map[string]string{
	"log.retention.ms":          "-1",
	"log.retention.bytes":       strconv.Itoa(retentionBytes),
	"log.cleaner.backoff.ms":    "9000000000", // 104 days
	"offsets.retention.minutes": "2147483647",
	"message.max.bytes":         "1310720",
}

// versions keeps Kafka's own tools from answers they stumble over: this broker's
// DescribeTopicPartitions lacks a list (they ask by Metadata instead), and from
// version 5 its CreateTopics lacks the source of each setting (seen with 4.3).
func versions() *kversion.Versions {
	v := kversion.Stable()
	v.SetMaxKeyVersion(int16(kmsg.DescribeTopicPartitions), -1)
	v.SetMaxKeyVersion(int16(kmsg.CreateTopics), 4)
	return v
}
