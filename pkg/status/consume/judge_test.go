package consume

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sluice/pkg/kafka"
	"sluice/pkg/order"
	"sluice/pkg/status"
)

func message(id string, version int64) status.Message {
	m := status.Message{
		Source: "sluice", OrderID: id, Version: version, Status: order.Pending, Amount: 100, Currency: "EUR",
		Cause: status.Cause{Source: "stripe", EventID: "evt"}, ChangedAt: time.UnixMicro(1_764_504_002_000_500).UTC(),
	}
	if version > 1 {
		m.Previous, m.Status, m.Paid = order.Pending, order.Paid, 100
	}
	return m
}

func ids(messages []status.Message) (names []string) {
	for _, m := range messages {
		names = append(names, m.ID())
	}
	return names
}

func TestOnlyAGreaterVersionIsNewAndWhatIsMissingIsNamed(t *testing.T) {
	for _, c := range []struct {
		name    string
		last    map[string]int64
		come    []string
		rebuilt int64
		want    []string
		repeats int
		gaps    []Gap
	}{
		{name: "nothing"},
		{name: "in order", come: []string{"a.1", "b.1", "a.2"}, want: []string{"a.1", "b.1", "a.2"}},
		{name: "a repeat within the batch", come: []string{"a.1", "a.2", "a.1", "a.2", "a.3"}, want: []string{"a.1", "a.2", "a.3"}, repeats: 2},
		{name: "a repeat of what was applied", last: map[string]int64{"a": 2}, come: []string{"a.1", "a.2", "a.3"}, want: []string{"a.3"}, repeats: 2},
		{name: "a gap", last: map[string]int64{"a": 2}, come: []string{"a.5", "a.6"}, want: []string{"a.5", "a.6"}, gaps: []Gap{{"a", 3, 4, 2, 100}}},
		{name: "a gap within the batch", come: []string{"a.1", "b.1", "a.3"}, want: []string{"a.1", "b.1", "a.3"}, gaps: []Gap{{"a", 2, 2, 2, 102}}},
		{name: "an order whose beginning is gone", come: []string{"a.3"}, want: []string{"a.3"}, gaps: []Gap{{"a", 1, 2, 2, 100}}},
		{name: "what a rebuild did not see yet", rebuilt: 102, last: map[string]int64{"a": 1}, come: []string{"a.3", "b.2", "a.7"}, want: []string{"a.3", "b.2", "a.7"}, gaps: []Gap{{"a", 4, 6, 2, 102}}},
		{name: "dots in an order id", last: map[string]int64{"a.1": 1}, come: []string{"a.1", "a.1.2"}, want: []string{"a.1", "a.1.2"}},
	} {
		var come []placed
		for i, id := range c.come {
			dot := strings.LastIndex(id, ".")
			come = append(come, placed{message(id[:dot], int64(id[dot+1]-'0')), 2, int64(100 + i)})
		}
		b := judge(come, c.last, map[int32]int64{2: c.rebuilt})
		if diff := cmp.Diff(c.want, ids(b.Messages)); diff != "" || b.Repeats != c.repeats {
			t.Errorf("%s: %d repeats, messages (-want +got):\n%s", c.name, b.Repeats, diff)
		}
		if diff := cmp.Diff(c.gaps, b.Gaps); diff != "" {
			t.Errorf("%s: gaps (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestTheNewestOfABatchIsOneMessageForEachOrder(t *testing.T) {
	b := Batch{Messages: []status.Message{message("a", 1), message("b", 1), message("a", 2), message("c", 4)}}
	if got := ids(b.Newest()); !slices.Equal(got, []string{"b.1", "a.2", "c.4"}) {
		t.Error(got)
	}
}

func TestARecordThatIsNoMessageIsNamedAndTheOthersAreRead(t *testing.T) {
	good := message("a", 1)
	records := []kafka.Record{
		{Topic: "s", Partition: 3, Offset: 7, Key: good.Key(), Value: good.Encode()},
		{Topic: "s", Partition: 3, Offset: 8, Key: good.Key(), Value: []byte("{")},
		{Topic: "s", Partition: 3, Offset: 9, Key: []byte("b"), Value: good.Encode()},
		{Topic: "s", Partition: 3, Offset: 10, Key: []byte("b")},
	}
	messages, unreadable := decode(records)
	if len(messages) != 1 || messages[0].offset != 7 || len(unreadable) != 3 {
		t.Fatalf("%v, %v", messages, unreadable)
	}
	if got := unreadable[1].Error(); got != "topic s, partition 3, offset 9: "+errKey.Error() {
		t.Error(got)
	}
}

func TestAGapSaysWhatIsMissingAndHowToGetItAgain(t *testing.T) {
	g := Gap{"A-1", 3, 4, 2, 17}
	if got, want := g.String(), `order "A-1": versions 3 to 4 did not come before partition 2, offset 17`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, want := range []string{"partition 2 ", "up to 17,", "consume.Missing", "GET /v1/orders/", "`sluice explain A-1`"} {
		if !strings.Contains(g.Again(), want) {
			t.Errorf("%q does not say %q", g.Again(), want)
		}
	}
}

// topics are the two topics as a broker keeps them, one partition of each. A
// relay's transaction lies in both; who reads committed records of one sees as far
// as the first record of a transaction that this topic does not know to be over.
type topics struct{ status, latest []written }

type written struct {
	status.Message
	transaction *transaction
}

type transaction struct {
	open    bool // nobody has decided yet
	aborted bool
	// marked: the topic knows that the transaction is over.
	statusMarked, latestMarked bool
}

func committedEnd(topic []written, marked func(*transaction) bool) int {
	if i := slices.IndexFunc(topic, func(w written) bool { return !marked(w.transaction) }); i >= 0 {
		return i
	}
	return len(topic)
}

// consumer is an application that keeps its versions with its work.
type consumer struct {
	t       *rapid.T
	applied map[string]int64
	rebuilt int64
}

func (c *consumer) take(ws []written, at int, snapshot bool, cut func() int) {
	var come []placed
	for i, w := range ws {
		if !w.transaction.aborted {
			come = append(come, placed{w.Message, 0, int64(at + i)})
		}
	}
	for len(come) > 0 {
		n := min(len(come), cut())
		first := come[0].offset
		b := judge(come[:n], c.applied, map[int32]int64{0: c.rebuilt})
		come = come[n:]
		if len(b.Gaps) > 0 && !snapshot {
			c.t.Fatalf("a gap: %s", b.Gaps[0])
		}
		for _, m := range b.Messages {
			if m.Version <= c.applied[m.OrderID] {
				c.t.Fatalf("%s applied after version %d", m.ID(), c.applied[m.OrderID])
			}
			if !snapshot && first >= c.rebuilt && m.Version != c.applied[m.OrderID]+1 {
				c.t.Fatalf("%s applied after version %d", m.ID(), c.applied[m.OrderID])
			}
			c.applied[m.OrderID] = m.Version
		}
	}
}

// Whatever a relay, the broker and its compaction do between the steps of a
// rebuild, and wherever it is cut off and begun again, no version is lost and none
// applied after a later one.
func TestARebuildMissesNothingAndAppliesNothingOlder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var on topics
		versions := map[string]int64{}
		var current *transaction
		var pendingStatus, pendingLatest []written
		draw := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "n") }
		// step is one thing that happens at the broker.
		step := func() {
			switch x := current; {
			case x == nil:
				// A new transaction: each its own messages, which reach the two topics apart.
				current = &transaction{open: true, aborted: draw(6) == 0}
				for range 1 + draw(3) {
					id := string(rune('a' + draw(3)))
					v := versions[id] + 1
					for _, w := range pendingStatus {
						if w.OrderID == id {
							v = w.Version + 1
						}
					}
					w := written{message(id, v), current}
					pendingStatus, pendingLatest = append(pendingStatus, w), append(pendingLatest, w)
				}
				if !current.aborted {
					for _, w := range pendingStatus {
						versions[w.OrderID] = max(versions[w.OrderID], w.Version)
					}
				}
			case len(pendingStatus) > 0 && (len(pendingLatest) == 0 || draw(2) == 0):
				on.status, pendingStatus = append(on.status, pendingStatus[0]), pendingStatus[1:]
			case len(pendingLatest) > 0:
				on.latest, pendingLatest = append(on.latest, pendingLatest[0]), pendingLatest[1:]
			case x.open:
				x.open = false
			case !x.statusMarked && (x.latestMarked || draw(2) == 0):
				x.statusMarked = true
			case !x.latestMarked:
				x.latestMarked = true
			default:
				current = nil
			}
		}
		steps := func(most int) {
			for range draw(most) {
				step()
			}
		}
		settle := func() {
			for step(); current != nil; {
				step()
			}
		}
		statusMarked := func(x *transaction) bool { return x.statusMarked }
		latestMarked := func(x *transaction) bool { return x.latestMarked }
		cut := func() int { return 1 + draw(5) }

		c := &consumer{t: t, applied: map[string]int64{}}
		at := 0
		for tries := draw(3); ; tries-- {
			steps(40)
			from := committedEnd(on.status, statusMarked)
			steps(20)
			end := len(on.latest)
			steps(20)
			// It waits for the transactions that were open.
			for committedEnd(on.latest, latestMarked) < end {
				step()
			}
			read := compact(on.latest, end, draw)
			if tries > 0 { // a crash in the middle: nothing is committed
				c.take(read[:draw(len(read)+1)], 0, true, cut)
				continue
			}
			c.take(read, 0, true, cut)
			steps(20)
			at, c.rebuilt = from, int64(len(on.status))
			break
		}
		for range 3 {
			steps(40)
			end := committedEnd(on.status, statusMarked)
			if end > at {
				upTo := at + draw(end-at+1)
				c.take(on.status[at:upTo], at, false, cut)
				if draw(2) == 0 { // a crash before the commit: the same comes again
					c.take(on.status[at:upTo], at, false, cut)
				}
				at = upTo
			}
		}
		settle()
		c.take(on.status[at:], at, false, cut)
		if diff := cmp.Diff(versions, c.applied); diff != "" {
			t.Fatalf("applied (-published +applied):\n%s", diff)
		}
	})
}

// compact drops from what lies before end some records that a later one of the
// same order replaces, one behind end too, and cuts at end.
func compact(topic []written, end int, draw func(int) int) (left []written) {
	for i, w := range topic[:end] {
		replaced := slices.ContainsFunc(topic[i+1:], func(later written) bool {
			return later.OrderID == w.OrderID && later.transaction.latestMarked && !later.transaction.aborted
		})
		if !replaced || draw(2) == 0 {
			left = append(left, w)
		}
	}
	return left
}
