package postgres

import (
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// Merchant is the source of registrations: what the shop itself said. Review is
// the source of decisions: what a person said about an event.
const (
	Merchant = "merchant"
	Review   = "review"
)

// Fact is one event on its way into its order's set. A registration is one too
// (Kind KindRegistered): Object is then the shop's reference.
type Fact struct {
	order.Entry
	// OrderID is the order reference; empty: Entry.Payment leads to the order. One
	// of them must be there.
	OrderID string
	// OrderNo, if not 0, is the order itself, whatever OrderID and Payment say: a
	// decision belongs to the set that holds its target.
	OrderNo int64
	// Replaces: the event is known, and this is another reading of it. The one with
	// the greatest (Time, ReadingHash) counts, whatever came first.
	Replaces bool
	// Anew, if not nil: the event's bytes were read anew under the present rules.
	// Together with Replaces it is one of the states of an object, and a record that is
	// not the one that counts counts only if it is later.
	Anew *Anew
	// EventID and EventType are the provider's; Endpoint is where it came in.
	EventID, EventType, Endpoint string
	// AppendedAt is when the broker took it: the hour it counts in.
	AppendedAt time.Time
	// AskAfter is how long a refund may be under way (order.UnderWay) before its provider
	// is asked how it ended; 0: never.
	AskAfter time.Duration
	// ReadingHash tells two readings of one event id apart.
	ReadingHash int64
	// OutsideWindow: processed_events does not reach back so far. If its order is
	// not registered it is held under that reason.
	OutsideWindow bool
	// Partition and Offset say where its record lies (-1: in no topic); Headers and
	// Body are kept as long as it is held.
	Partition int32
	Offset    int64
	Headers   []event.Header
	Body      []byte
}

// Applied is what Apply did.
type Applied struct {
	// Verdicts has one judgement for each fact, at its place. A fact that the set
	// held already is a Duplicate, and so is one that was read anew and says the same.
	Verdicts []order.Judgement
	// OrderNos has the order that each fact belongs to, at its place.
	OrderNos []int64
	// OtherReadings are the places of the duplicates that say something else than
	// the event in the set, which stands; and of those that Replace an event which
	// is not in the set they lead to.
	OtherReadings []int
	// Added are the places of the facts read anew that no set had.
	Added []int
	// Unlearnt is how many payments lead to no order any more, because what said so was
	// read anew. If another set knows better, reading its events anew says so.
	Unlearnt int
	// Crossed are the places of facts that name an order together with a payment
	// that leads to another order. They count in the order they name; what names
	// only the payment goes on leading to the other.
	Crossed []int
	// Changes is the number of transitions written; if there are any, wake the
	// relays after the commit.
	Changes int
	// Effects is the number of effects that must be done now and had not to be before;
	// if there are any, wake the relays, too.
	Effects int
	// Moved is what became of older events: count it with AddToBooks.
	Moved Books
}
