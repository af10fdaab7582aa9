package order

// Kind is what a fact states about an order. The numbers are stored; never
// reuse one.
type Kind uint8

const (
	// KindNone states nothing about an order: an unknown or unused event type.
	KindNone Kind = iota
	// KindPending: a payment is under way; nothing is decided.
	KindPending
	// KindFailed: one attempt to pay failed. Another may follow.
	KindFailed
	// KindPaid: the money of one payment was taken.
	KindPaid
	// KindRefund: one refund of Amount was made; Object is the refund's id.
	KindRefund
	// KindRefundTotal: the payment's refunds so far sum to Amount.
	KindRefundTotal
	// KindRefundFailed: the refund Object bounced, Amount came back.
	KindRefundFailed
	// KindDisputeOpened, KindDisputeWon and KindDisputeLost tell the story of the
	// dispute Object; they set a flag beside the status.
	KindDisputeOpened
	KindDisputeWon
	KindDisputeLost
	// KindCancelled: the order or its payment was called off before it was paid.
	KindCancelled
)
