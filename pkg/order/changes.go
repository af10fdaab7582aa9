package order

import "slices"

// Change is one step that must be published.
type Change struct {
	Step
	// Correction: a late fact or a decision made what was published untrue, or
	// overrode the table; From and To need not be joined by it.
	Correction bool
}

// Changes is what must be published when an order's set grew and its fold went
// from before to after: nothing if the state is the same; the steps after the
// published state if after passes through it; else one correction. The first
// change's From is before.State, each further one's is the To before it, and the
// last one's To is after.State. Which payment paid is not published: states that
// differ in nothing else are the same.
func Changes(before, after Outcome) []Change {
	// The steps after the last one that leads to the published state: none if the
	// state is the same.
	at := len(after.Steps)
	for at > 0 && after.Steps[at-1].To.published() != before.State.published() {
		at--
	}
	if at == 0 && before.State != (State{}) {
		return []Change{{Step: correction(before, after), Correction: true}}
	}
	changes := make([]Change, 0, len(after.Steps)-at)
	for _, s := range after.Steps[at:] {
		changes = append(changes, Change{Step: s, Correction: s.Override})
	}
	if len(changes) > 0 {
		changes[0].From = before.State
	}
	return changes
}

// published is the part of a state that a message shows.
func (s State) published() State {
	s.PaymentSource, s.Payment = "", ""
	return s
}

// correction leads straight to the new state. Its cause is the last fact that
// made a step now and did not before; without one, the last dismissal that is
// new; without that, the last step's.
func correction(before, after Outcome) Step {
	if len(after.Steps) == 0 {
		return Step{From: before.State, To: after.State}
	}
	last := after.Steps[len(after.Steps)-1]
	c := Step{From: before.State, To: after.State, Cause: last.Cause, Time: last.Time}
	for i := len(after.Steps) - 1; i >= 0; i-- {
		if s := after.Steps[i]; !caused(before.Steps, s.Cause) {
			c.Cause, c.Time = s.Cause, s.Time
			return c
		}
	}
	for _, d := range after.Dismissals {
		if !slices.Contains(before.Dismissals, d) {
			c.Cause, c.Time = d.Hash, d.Time
		}
	}
	return c
}

func caused(steps []Step, cause [16]byte) bool {
	for i := range steps {
		if steps[i].Cause == cause {
			return true
		}
	}
	return false
}
