package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Members is who reads a topic as a consumer group.
type Members struct {
	// Settled: every partition has the member that it will have until somebody comes or
	// goes. False while the group shares its partitions out.
	Settled bool
	// Count is how many members the group has, with partitions or without.
	Count int
	// Of says which member has a partition: its client and host.
	Of map[int32]string
}

// Members asks the group's coordinator. A member that died is one until its session
// has ended.
func (o *Offsets) Members(ctx context.Context, group string) (Members, error) {
	described, err := o.adm.DescribeGroups(ctx, group)
	if err == nil {
		err = described[group].Err
	}
	if errors.Is(err, kerr.GroupIDNotFound) {
		return Members{Settled: true}, nil // nobody ever joined it
	}
	if err != nil {
		return Members{}, fmt.Errorf("ask who is in group %s: %w", group, err)
	}
	g := described[group]
	m := Members{Count: len(g.Members), Of: map[int32]string{}}
	switch g.State {
	case "Stable", "Empty", "Dead":
		m.Settled = true
	}
	for _, member := range g.Members {
		assigned, ok := member.Assigned.AsConsumer()
		if !ok {
			continue
		}
		for _, t := range assigned.Topics {
			for _, p := range t.Partitions {
				if t.Topic == o.topic {
					m.Of[p] = member.ClientID + " at " + member.ClientHost
				}
			}
		}
	}
	return m, nil
}
