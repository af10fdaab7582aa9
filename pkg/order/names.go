package order

import "fmt"

// Every numbered set of this package has names: the word for number n is at
// place n. Words are what people, messages and JSON see; numbers are what rows
// hold.
var (
	statusNames  = []string{"none", "pending", "paid", "failed", "cancelled", "partially_refunded", "refunded"}
	disputeNames = []string{"none", "open", "won", "lost"}
	kindNames    = []string{"none", "pending", "failed", "paid", "refund", "refund_total", "refund_failed",
		"dispute_opened", "dispute_won", "dispute_lost", "cancelled", "registered", "accept", "dismiss"}
	verdictNames = []string{"applied", "no_change", "held", "dead", "duplicate"}
	reasonNames  = []string{"none", "awaiting_order", "awaiting_payment", "awaiting_predecessor", "awaiting_provider",
		"illegal_transition", "second_payment", "amount_mismatch", "currency_mismatch", "over_refund",
		"outside_window", "other_mode", "dismissed"}
)

func name[T ~uint8](set string, names []string, n T) string {
	if int(n) < len(names) {
		return names[n]
	}
	return fmt.Sprintf("%s(%d)", set, n)
}

func parse[T ~uint8](set string, names []string, word string) (T, error) {
	for n, s := range names {
		if s == word {
			return T(n), nil
		}
	}
	return 0, fmt.Errorf("order: %q is no %s", word, set)
}

func text[T ~uint8](set string, names []string, n T) ([]byte, error) {
	if int(n) < len(names) {
		return []byte(names[n]), nil
	}
	return nil, fmt.Errorf("order: %d is no %s", n, set)
}

// String is the status's word, for example "partially_refunded".
func (s Status) String() string { return name("status", statusNames, s) }

// ParseStatus is the status that a word names; any other text is an error.
func ParseStatus(word string) (Status, error) { return parse[Status]("status", statusNames, word) }

// MarshalText is the word; an unknown number is an error.
func (s Status) MarshalText() ([]byte, error) { return text("status", statusNames, s) }

// UnmarshalText reads a word; any other text is an error.
func (s *Status) UnmarshalText(word []byte) (err error) {
	*s, err = ParseStatus(string(word))
	return err
}

// String is the flag's word, for example "open".
func (d Dispute) String() string { return name("dispute", disputeNames, d) }

// ParseDispute is the flag that a word names; any other text is an error.
func ParseDispute(word string) (Dispute, error) { return parse[Dispute]("dispute", disputeNames, word) }

// MarshalText is the word; an unknown number is an error.
func (d Dispute) MarshalText() ([]byte, error) { return text("dispute", disputeNames, d) }

// UnmarshalText reads a word; any other text is an error.
func (d *Dispute) UnmarshalText(word []byte) (err error) {
	*d, err = ParseDispute(string(word))
	return err
}

// String is the kind's word, for example "refund_total".
func (k Kind) String() string { return name("kind", kindNames, k) }

// ParseKind is the kind that a word names; any other text is an error.
func ParseKind(word string) (Kind, error) { return parse[Kind]("kind", kindNames, word) }

// MarshalText is the word; an unknown number is an error.
func (k Kind) MarshalText() ([]byte, error) { return text("kind", kindNames, k) }

// UnmarshalText reads a word; any other text is an error.
func (k *Kind) UnmarshalText(word []byte) (err error) {
	*k, err = ParseKind(string(word))
	return err
}

// String is the verdict's word, for example "no_change".
func (v Verdict) String() string { return name("verdict", verdictNames, v) }

// ParseVerdict is the verdict that a word names; any other text is an error.
func ParseVerdict(word string) (Verdict, error) { return parse[Verdict]("verdict", verdictNames, word) }

// MarshalText is the word; an unknown number is an error.
func (v Verdict) MarshalText() ([]byte, error) { return text("verdict", verdictNames, v) }

// UnmarshalText reads a word; any other text is an error.
func (v *Verdict) UnmarshalText(word []byte) (err error) {
	*v, err = ParseVerdict(string(word))
	return err
}

// String is the reason's word, for example "second_payment".
func (r Reason) String() string { return name("reason", reasonNames, r) }

// ParseReason is the reason that a word names; any other text is an error.
func ParseReason(word string) (Reason, error) { return parse[Reason]("reason", reasonNames, word) }

// MarshalText is the word; an unknown number is an error.
func (r Reason) MarshalText() ([]byte, error) { return text("reason", reasonNames, r) }

// UnmarshalText reads a word; any other text is an error.
func (r *Reason) UnmarshalText(word []byte) (err error) {
	*r, err = ParseReason(string(word))
	return err
}
