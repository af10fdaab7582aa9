package replay

import "fmt"

// Moved says what changed between a plan and the world as it is now, so that the plan
// is not what would be done. That live traffic went on is no change.
func (p *Plan) Moved(now World) (moved []string) {
	say := func(format string, args ...any) { moved = append(moved, fmt.Sprintf(format, args...)) }
	if now.TopicID != p.TopicID {
		say("topic %s was made anew: its offsets are others'", p.Topic)
		return moved
	}
	if now.Open != nil {
		say("replay %d of %s was begun meanwhile", now.Open.ID, now.Open.Who)
	}
	for _, s := range p.Steps {
		at, there := now.Partitions[s.Partition]
		switch {
		case !there:
			say("partition %d is gone", s.Partition)
			continue
		case at.Applied < s.Applied:
			say("partition %d: the database has applied less (offset %d) than when the plan was made (%d); was it restored from a backup?", s.Partition, at.Applied, s.Applied)
		case s.Ahead > 0 && at.Applied+1 > s.To:
			say("partition %d: offset %d is not ahead any more", s.Partition, s.To)
		}
		if s.Does() && at.First > s.To {
			say("partition %d: offset %d has expired; the log begins at %d", s.Partition, s.To, at.First)
		}
		if at.End < s.To {
			say("partition %d: the log ends at %d, before offset %d", s.Partition, at.End, s.To)
		}
		if at.Group < s.Group {
			say("partition %d: somebody reset the group from offset %d to %d", s.Partition, s.Group, at.Group)
		} else if at.Group != s.Group && at.Group > at.Applied+1 {
			say("partition %d: somebody set the group ahead, from offset %d to %d", s.Partition, s.Group, at.Group)
		}
	}
	return moved
}
