package order

// Status is where an order stands. The numbers are stored; never reuse one.
type Status uint8

const (
	// StatusNone: not registered yet; nothing is published.
	StatusNone Status = iota
	Pending
	Paid
	Failed
	Cancelled
	PartiallyRefunded
	Refunded
)

const statuses = int(Refunded) + 1

// Dispute is a flag beside the status.
type Dispute uint8

const (
	NoDispute Dispute = iota
	DisputeOpen
	DisputeWon
	DisputeLost
)

const disputes = int(DisputeLost) + 1
