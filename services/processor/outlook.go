package processor

import (
	"sluice/pkg/order"
)

// Outlook is what would become of records if they were applied now. Words are those
// of the store: verdicts, reasons, statuses, effects' names, review kinds.
//
// Every record is one of: Tombstones, Duplicates, New, Mended, Hints, Dead. What is
// new ends as one of: Applied, NoChange, OtherMode, Held.
type Outlook struct {
	Records    int64 `json:"records"`
	Tombstones int64 `json:"tombstones"`
	// Duplicates were taken over before and change nothing, or only by Updated.
	Duplicates int64 `json:"duplicates"`
	// New would be taken over for the first time.
	New int64 `json:"new"`
	// Mended were taken over before and say something else under the present rules.
	Mended int64 `json:"mended"`
	// Hints would be held until their provider was asked.
	Hints int64 `json:"hints"`
	// Dead cannot be taken over, by reason; NewlyDead of them were not kept as dead
	// letters before.
	Dead      map[string]int64 `json:"dead"`
	NewlyDead int64            `json:"newly_dead"`
	// Revived are records that were dead letters and are not any more. They are
	// counted as what they become, too.
	Revived int64 `json:"revived"`

	// What is new, by what became of it when all records were applied.
	Applied   int64            `json:"applied"`
	NoChange  int64            `json:"no_change"`
	OtherMode int64            `json:"other_mode"`
	Held      map[string]int64 `json:"held"` // by reason

	// Updated are events of orders' sets of which another reading would count.
	Updated int64 `json:"updated"`
	// Older are events that the sets had before and that would be judged otherwise.
	Older []Turn `json:"older"`

	// Orders would change: their last published status, and what it would come to.
	// From and To are the same where only money or a dispute would change.
	Orders      int64  `json:"orders"`
	Steps       []Step `json:"steps"`
	Messages    int64  `json:"messages"`
	Corrections int64  `json:"corrections"` // of the messages

	Effects []EffectOutlook `json:"effects"`
	Review  []ReviewOutlook `json:"review"`

	// Batch is how many records were applied together at most. How many versions are
	// published on the way depends on it; what the orders come to does not.
	Batch   int     `json:"batch"`
	Samples Samples `json:"samples"`
}

// Turn is how many events would be judged otherwise. A reason is "none" but of what
// is held or dismissed.
type Turn struct {
	From       order.Verdict `json:"from"`
	FromReason order.Reason  `json:"from_reason"`
	To         order.Verdict `json:"to"`
	ToReason   order.Reason  `json:"to_reason"`
	Events     int64         `json:"events"`
}

// Step is how many orders would go from one status to another.
type Step struct {
	From   order.Status `json:"from"`
	To     order.Status `json:"to"`
	Orders int64        `json:"orders"`
}

// EffectOutlook is what would become of one effect's calls.
type EffectOutlook struct {
	Effect string `json:"effect"`
	// Caused are calls that would be made for the first time, Again those that would be
	// made although they were withdrawn before, or had failed for good.
	Caused int64 `json:"caused"`
	Again  int64 `json:"again"`
	// Withdrawn would not be made any more. Outdated were attempted, and nothing would
	// imply them any more: a person is asked.
	Withdrawn int64 `json:"withdrawn"`
	Outdated  int64 `json:"outdated"`
}

// ReviewOutlook is what people would be asked at once, and what would settle itself.
// Of what is held they are asked when its grace is over.
type ReviewOutlook struct {
	Kind    string `json:"kind"`
	Opened  int64  `json:"opened"`
	Settled int64  `json:"settled"`
}

// Samples are the first few of each kind.
type Samples struct {
	Applied []EventSample  `json:"applied"`
	Held    []EventSample  `json:"held"`
	Dead    []EventSample  `json:"dead"`
	Orders  []OrderSample  `json:"orders"`
	Effects []EffectSample `json:"effects"`
}

// EventSample is one record of an event. Order is empty where its payment leads
// nowhere yet; Reason is of what is held or dead.
type EventSample struct {
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Source    string `json:"source"`
	Event     string `json:"event"`
	Order     string `json:"order"`
	Verdict   string `json:"verdict"`
	Reason    string `json:"reason"`
}

// OrderSample is one order that would change. Source and Event name what caused its
// last message.
type OrderSample struct {
	Order       string       `json:"order"`
	From        order.Status `json:"from"`
	To          order.Status `json:"to"`
	Messages    int64        `json:"messages"`
	Corrections int64        `json:"corrections"`
	Source      string       `json:"source"`
	Event       string       `json:"event"`
}

// EffectSample is one call that would be made, or would not be made any more.
type EffectSample struct {
	Effect string `json:"effect"`
	Key    string `json:"key"`
	Order  string `json:"order"`
	What   string `json:"what"` // caused, again, withdrawn, outdated
}
