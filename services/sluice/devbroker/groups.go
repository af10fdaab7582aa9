package devbroker

import (
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// answerUnknownGroups answers as Kafka does who asks for the offsets of a group
// that does not exist yet: it has none. The broker alone answers with an error,
// which ends clients that look before they join (seen with librdkafka 2.16).
func answerUnknownGroups(c *kfake.Cluster) {
	c.ControlKey(int16(kmsg.OffsetFetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := r.(*kmsg.OffsetFetchRequest)
		groups := req.Groups
		if req.Version <= 7 {
			groups = []kmsg.OffsetFetchRequestGroup{{Group: req.Group}}
		}
		known := false
		c.SleepControl(func() { // the broker looks only while nothing else runs
			for _, g := range groups {
				known = known || c.GroupInfo(g.Group) != nil
			}
		})
		if known {
			return nil, nil, false
		}
		return noOffsets(req), nil, true
	})
}

// noOffsets says of every partition that is asked for that it has no offset.
func noOffsets(req *kmsg.OffsetFetchRequest) *kmsg.OffsetFetchResponse {
	resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
	for _, t := range req.Topics { // up to version 7
		topic := kmsg.NewOffsetFetchResponseTopic()
		topic.Topic = t.Topic
		for _, p := range t.Partitions {
			partition := kmsg.NewOffsetFetchResponseTopicPartition()
			partition.Partition, partition.Offset = p, -1
			topic.Partitions = append(topic.Partitions, partition)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	for _, g := range req.Groups {
		group := kmsg.NewOffsetFetchResponseGroup()
		group.Group = g.Group
		for _, t := range g.Topics {
			topic := kmsg.NewOffsetFetchResponseGroupTopic()
			topic.Topic, topic.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				partition := kmsg.NewOffsetFetchResponseGroupTopicPartition()
				partition.Partition, partition.Offset = p, -1
				topic.Partitions = append(topic.Partitions, partition)
			}
			group.Topics = append(group.Topics, topic)
		}
		resp.Groups = append(resp.Groups, group)
	}
	return resp
}
