package explain

import (
	"time"

	"sluice/pkg/order"
	"sluice/pkg/postgres"
)

// Answer is everything there is to say about one id, and the document that
// programs get. Its names are stable; a member that has nothing to say is absent.
// Amounts are minor units of the currency beside them, times RFC 3339 in UTC.
type Answer struct {
	Asked string `json:"asked"`
	// Is says what the id turned out to be: event, order, payment or dead_letter.
	Is string `json:"is"`
	// Event is there if it is an event or a dead letter, Payment if it is a payment.
	Event   *Event   `json:"event,omitempty"`
	Payment *Payment `json:"payment,omitempty"`
	// Order is the order that it is, or belongs to.
	Order *Order `json:"order,omitempty"`
	// NotLookedAt are the parts that could not be asked, and why.
	NotLookedAt []string `json:"not_looked_at,omitempty"`
}

// Event is one event: where it came in and lies, what was made of it, and what it
// did to its order.
type Event struct {
	Source string `json:"source,omitempty"`
	ID     string `json:"id"`
	Type   string `json:"type,omitempty"`
	Mode   string `json:"mode,omitempty"`

	Receipt   *Receipt   `json:"receipt,omitempty"`
	Signature Signature  `json:"signature"`
	Dedupe    Dedupe     `json:"dedupe"`
	Reading   *Reading   `json:"reading,omitempty"`
	Verdict   *Verdict   `json:"verdict,omitempty"`
	Dead      *Dead      `json:"dead,omitempty"`
	Before    *State     `json:"order_without_it,omitempty"`
	After     *State     `json:"order_with_it,omitempty"`
	Reviews   []Review   `json:"reviews,omitempty"`
	Messages  []string   `json:"messages,omitempty"` // ids of the messages that it caused
	Body      *string    `json:"body,omitempty"`     // only if asked for
	Occurred  *time.Time `json:"occurred_at,omitempty"`
}

// Receipt is how the event came in.
type Receipt struct {
	Endpoint   string     `json:"endpoint"`
	Provider   string     `json:"provider"`
	ReceivedAt *time.Time `json:"received_at,omitempty"`
	AppendedAt *time.Time `json:"appended_at,omitempty"`
	Partition  int32      `json:"partition"`
	Offset     int64      `json:"offset"`
	// BytesFrom is where the bytes were found: raw_topic, held_events, raw_bodies,
	// dead_letters; empty if nowhere.
	BytesFrom  string `json:"bytes_from,omitempty"`
	BodyBytes  int    `json:"body_bytes"`
	BodySHA256 string `json:"body_sha256,omitempty"`
}

// Signature is what verifying the stored bytes again, as of their receipt, found.
type Signature struct {
	// Verdict is valid, invalid or stale; accepted_at_receipt where there is nothing
	// to verify again (a static credential); looked_up where Sluice asked the provider
	// itself; not_verified if it could not be done.
	Verdict string `json:"verdict"`
	// Why says more about any verdict but valid.
	Why string `json:"why,omitempty"`
	// AtReceipt names the secret that matched when the webhook came in; Secret the
	// one that matched now.
	AtReceipt string     `json:"secret_at_receipt,omitempty"`
	Secret    string     `json:"secret,omitempty"`
	SignedAt  *time.Time `json:"signed_at,omitempty"`
}

// Dedupe is whether the event was taken over, and how often it came.
type Dedupe struct {
	// Verdict is taken_over, in_set (the filter does not know it any more, the set of its
	// order does), hint (held apart, whatever else has its id), dead, in_flight, or unknown.
	Verdict string     `json:"verdict"`
	SeenAt  *time.Time `json:"seen_at,omitempty"`
	// Deliveries are all records of this event in the raw topic; only if they were
	// looked for.
	Deliveries []Delivery `json:"deliveries,omitempty"`
}

// Delivery is one record of an event.
type Delivery struct {
	Partition  int32     `json:"partition"`
	Offset     int64     `json:"offset"`
	AppendedAt time.Time `json:"appended_at"`
	// SameBody: its bytes are those of the first.
	SameBody bool `json:"same_body"`
}

// Reading is what the event states.
type Reading struct {
	Fact     order.Kind `json:"fact"`
	Order    string     `json:"order,omitempty"`
	Payment  string     `json:"payment,omitempty"`
	Object   string     `json:"object,omitempty"`
	Amount   int64      `json:"amount"`
	Currency string     `json:"currency,omitempty"`
}

// Verdict is what became of an event in its order's set.
type Verdict struct {
	Verdict order.Verdict `json:"verdict"`
	Reason  order.Reason  `json:"reason"`
	// Why says it in a sentence, Release what would let a held event go.
	Why     string     `json:"why,omitempty"`
	Release string     `json:"release,omitempty"`
	HeldAt  *time.Time `json:"held_at,omitempty"`
	// DueAt is when a person is asked; absent if one has been.
	DueAt *time.Time `json:"due_at,omitempty"`
}

// Dead is why a record is a dead letter.
type Dead struct {
	Reason string `json:"reason"`
	Detail string `json:"detail"`
	// SettledAt is when it was sent again, discarded, or readable to a replay
	// (SettledAs); SettledBy is empty if nobody did it.
	SettledAt *time.Time `json:"settled_at,omitempty"`
	SettledBy string     `json:"settled_by,omitempty"`
	SettledAs string     `json:"settled_as,omitempty"`
}

// State is an order at one point of its fold.
type State struct {
	Status   order.Status  `json:"status"`
	Amount   int64         `json:"amount"`
	Paid     int64         `json:"paid"`
	Refunded int64         `json:"refunded"`
	Currency string        `json:"currency,omitempty"`
	Dispute  order.Dispute `json:"dispute"`
	Held     int           `json:"held"`
}

// Payment is where a payment leads.
type Payment struct {
	Source string `json:"source"`
	ID     string `json:"id"`
	// Order is empty while no event has named payment and order together.
	Order string `json:"order,omitempty"`
}

// Order is an order's whole story.
type Order struct {
	ID string `json:"id,omitempty"` // empty: known by a payment only
	// Registered is absent while the shop has not registered it.
	Registered *Registered `json:"registered,omitempty"`
	Now        State       `json:"now"`
	Version    int64       `json:"version"`
	// Events are its set in the order of the fold, not of arrival; decisions and
	// registrations are entries too.
	Events []Entry `json:"events"`
	// Steps are how the fold leads to the state, from nothing.
	Steps []Step `json:"steps"`
	// Messages are the versions published, as they were at the time.
	Messages []Message `json:"messages"`
	// Effects are what must happen outside because of it, the oldest first.
	Effects []postgres.EffectSummary `json:"effects,omitempty"`
	Reviews []Review                 `json:"reviews,omitempty"`
	// Hints are what nobody has signed and the provider is being asked about; at most
	// 100, the oldest first.
	Hints []Hint `json:"hints,omitempty"`
	// Asking is what its providers are being asked about, the next one first.
	Asking []Asking `json:"asking,omitempty"`
	// Agrees is false if folding the set anew does not give the state that the
	// store has: a fault of Sluice.
	Agrees bool `json:"fold_agrees"`
}

// Hint is one event that is not believed until its provider has answered.
type Hint struct {
	Source string `json:"source"`
	ID     string `json:"id"`
	Type   string `json:"type"`
	// Object is what the provider is asked about, Attempts how often it was, and Problem
	// why the last time was in vain.
	Object   string    `json:"object"`
	HeldAt   time.Time `json:"held_at"`
	Attempts int       `json:"attempts"`
	Problem  string    `json:"problem,omitempty"`
}

// Asking is something that a provider is being asked about.
type Asking struct {
	Source string    `json:"source"`
	Object string    `json:"object"`
	Since  time.Time `json:"since"`
	// For says whom it is for: order (it is pending, or an event of it is held) or hint.
	For      string `json:"for"`
	Attempts int    `json:"attempts"`
	// Problem is why the last attempt was in vain.
	Problem string `json:"problem,omitempty"`
	// NextAt is when it is asked again; absent while it is being asked.
	NextAt *time.Time `json:"next_at,omitempty"`
}

// Registered is what the shop said last.
type Registered struct {
	At        time.Time `json:"at"`
	Amount    int64     `json:"amount"`
	Currency  string    `json:"currency"`
	Reference string    `json:"reference,omitempty"`
}

// Entry is one event of a set.
type Entry struct {
	Source     string     `json:"source"`
	ID         string     `json:"id"`
	Type       string     `json:"type"`
	Fact       order.Kind `json:"fact"`
	Amount     int64      `json:"amount"`
	Currency   string     `json:"currency,omitempty"`
	Payment    string     `json:"payment,omitempty"`
	Object     string     `json:"object,omitempty"`
	OccurredAt *time.Time `json:"occurred_at,omitempty"`
	AppendedAt time.Time  `json:"appended_at"`
	// Arrival is its place in the order of arrival, from 1.
	Arrival   int   `json:"arrival"`
	Partition int32 `json:"partition"` // -1: in no topic
	Offset    int64 `json:"offset"`
	// Asked: it is the one that was asked for.
	Asked   bool    `json:"asked,omitempty"`
	Verdict Verdict `json:"verdict"`
	// Decides is, of a decision, the id of the event it is about.
	Decides string `json:"decides,omitempty"`
}

// Step is one step of the fold.
type Step struct {
	From  order.Status `json:"from"`
	To    State        `json:"to"`
	Cause string       `json:"cause"` // event id
	// Override: a person's decision leads there, not the table.
	Override bool `json:"override,omitempty"`
}

// Message is one version of the order on the status topic.
type Message struct {
	ID         string       `json:"id"`
	Version    int64        `json:"version"`
	From       order.Status `json:"from"`
	To         order.Status `json:"to"`
	Paid       int64        `json:"paid"`
	Refunded   int64        `json:"refunded"`
	Correction bool         `json:"correction"`
	Cause      string       `json:"cause"`
	ChangedAt  time.Time    `json:"changed_at"`
	// Published is where it lies on orders.status.v1; absent if it was not found there.
	Published *Published `json:"published,omitempty"`
}

// Published is the place of a message.
type Published struct {
	Partition int32 `json:"partition"`
	Offset    int64 `json:"offset"`
}

// Review is one review item and what people did about it.
type Review struct {
	ID        int64      `json:"id"`
	Kind      string     `json:"kind"`
	Detail    string     `json:"detail"`
	CreatedAt time.Time  `json:"created_at"`
	SettledAt *time.Time `json:"settled_at,omitempty"`
	Decision  string     `json:"decision,omitempty"`
	Acts      []Act      `json:"acts,omitempty"`
}

// Act is what a person did.
type Act struct {
	At     time.Time `json:"at"`
	Who    string    `json:"who"`
	Action string    `json:"action"`
	Reason string    `json:"reason"`
}
