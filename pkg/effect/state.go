package effect

import (
	"fmt"
	"slices"
	"strings"

	"sluice/pkg/order"
)

var stateNames = []string{"pending", "leased", "done", "withdrawn", "failed"}

// States are all states.
func States() []State { return []State{Pending, Leased, Done, Withdrawn, Failed} }

// String is the state's word, for example "pending".
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", s)
}

// ParseState is the state that a word names; any other text is an error.
func ParseState(word string) (State, error) {
	if i := slices.Index(stateNames, word); i >= 0 {
		return State(i), nil
	}
	return 0, fmt.Errorf("%q is none of %s", word, strings.Join(stateNames, ", "))
}

// MarshalText is the word.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String is the rule in words.
func (r Rule) String() string {
	text := "to " + r.To.String()
	switch {
	case r.Dispute != order.NoDispute:
		text = "dispute " + r.Dispute.String()
	case r.From != order.StatusNone:
		text = "from " + r.From.String() + " " + text
	}
	if r.NoCorrections {
		text += ", corrections apart"
	}
	return text
}

// Rules say in one line for each effect what it is caused by. Two sets with the same
// rules cause the same, whatever they call and however.
func (s Set) Rules() []string {
	lines := make([]string, len(s.all))
	for i, d := range s.all {
		rules := make([]string, len(d.On))
		for j, r := range d.On {
			rules[j] = r.String()
		}
		slices.Sort(rules)
		lines[i] = d.Name + ": " + strings.Join(rules, "; ")
		if d.Delay > 0 {
			lines[i] += "; after " + d.Delay.String()
		}
	}
	slices.Sort(lines)
	return lines
}
