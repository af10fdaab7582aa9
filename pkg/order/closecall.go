package order

// skew is how far the clocks of two sources may reasonably be apart, in
// milliseconds. It decides nothing: what is first is always decided by the key,
// because "about the same time" is not transitive.
const skew = 5_000

// CloseCall is the place of the applied fact of another source that entry i lost
// to by a matter of seconds: i is held as illegal_transition or second_payment,
// and the provider's times of both lie within 5 s of each other. Which was first
// then hangs on two clocks; a review item should say so. set is what o was folded
// from.
func (o *Outcome) CloseCall(set []Entry, i int) (place int, ok bool) {
	e := &set[i]
	if j := o.Judgements[i]; j.Verdict != Held || (j.Reason != IllegalTransition && j.Reason != SecondPayment) || e.Time <= 0 {
		return 0, false
	}
	for at := range set {
		other := &set[at]
		apart := other.Time - e.Time
		if other.Source != e.Source && other.Time > 0 && -skew <= apart && apart <= skew &&
			o.Judgements[at].Verdict == Applied && !other.Kind.IsDecision() {
			return at, true
		}
	}
	return 0, false
}
