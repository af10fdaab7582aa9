package demo

import (
	"fmt"
	"slices"

	"sluice/pkg/order"
	"sluice/pkg/postgres"
)

// problem says in what an order did not end as it must, or "".
func (s story) problem(end postgres.Story, messages []seen) string {
	var held []order.Reason
	for _, e := range end.Events {
		if e.Verdict == order.Held {
			held = append(held, e.Reason)
		}
	}
	slices.Sort(held)
	switch {
	case end.Status != s.want.status:
		return fmt.Sprintf("is %s, must be %s", end.Status, s.want.status)
	case end.Refunded != s.want.refunded:
		return fmt.Sprintf("refunded %d, must be %d", end.Refunded, s.want.refunded)
	case end.Dispute != s.want.dispute:
		return fmt.Sprintf("dispute is %s, must be %s", end.Dispute, s.want.dispute)
	case !slices.Equal(held, s.want.held):
		return fmt.Sprintf("holds %v, must hold %v", held, s.want.held)
	case len(messages) == 0:
		return "nothing on the status topic"
	}
	for i, m := range messages {
		if m.Version != int64(i+1) {
			return fmt.Sprintf("version %d is missing on the status topic", i+1)
		}
		if i > 0 && m.Previous != messages[i-1].Status {
			return fmt.Sprintf("version %d on the status topic does not follow the one before", m.Version)
		}
	}
	if last := messages[len(messages)-1]; last.Status != end.Status || last.Version != end.Version {
		return fmt.Sprintf("the status topic says %s (version %d), the store %s (version %d)", last.Status, last.Version, end.Status, end.Version)
	}
	return ""
}
