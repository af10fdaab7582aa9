package ingress

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sluice/pkg/endpoint"
	"sluice/pkg/event"
	"sluice/pkg/kafka"
)

func batches() endpoint.Endpoint {
	return endpoint.Endpoint{Name: "lab", Provider: batching{&lab{headers: []string{"x-whole"}}}}
}

// kept are the ids in the raw topic, with their events.
func (p *fakeProducer) kept(t *testing.T) map[string]event.Event {
	t.Helper()
	out := map[string]event.Event{}
	for _, r := range p.all() {
		e, err := event.Parse(r.Key, r.Value, r.Headers)
		if err != nil {
			t.Fatal(err)
		}
		out[e.ID] = e
	}
	return out
}

// O08: one request is many events, each a record of its own; the answer is the
// provider's, and comes when all are kept.
func TestABatchBecomesARecordAnEvent(t *testing.T) {
	p := &fakeProducer{}
	r := startLab(t, config(), p, batches())
	res := r.do("POST", "/webhooks/lab", "a\nb\nc\na\nd\ne", "X-Whole", "a")
	if text, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusOK || string(text) != "[accepted]" || res.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("answered %d %q", res.StatusCode, text)
	}
	kept := p.kept(t)
	if n := len(p.all()); n != 6 || len(kept) != 5 {
		t.Errorf("%d records of %d ids", n, len(kept))
	}
	for id, e := range kept {
		// Only a's own bytes carry what the header signs.
		if string(e.Body) != id || e.SecretName != "env:LAB" || e.Source != "lab" || (len(e.Signature) == 1) != (id == "a") {
			t.Errorf("%s: %+v", id, e)
		}
	}
	if r.counted("lab", accepted, "") != 1 {
		t.Error("not counted once")
	}
}

func TestABatchOfOneIsAnEvent(t *testing.T) {
	p := &fakeProducer{}
	r := startLab(t, config(), p, batches())
	want(t, "one", r.do("POST", "/webhooks/lab", "a", "X-Whole", "a").StatusCode, 200)
	if e := p.last(t); e.ID != "a" || len(e.Signature) != 1 || len(p.all()) != 1 {
		t.Errorf("%+v", e)
	}
}

// O08: a batch of nothing is refused, and so is one that does not verify whole.
func TestABatchOfNothingIs400AndABadOneIs401(t *testing.T) {
	p := &fakeProducer{}
	r := startLab(t, config(), p, batches())
	want(t, "refused by its signature", r.do("POST", "/webhooks/lab", "").StatusCode, 400)
	want(t, "of nothing after all", r.do("POST", "/webhooks/lab", "of nothing").StatusCode, 400)
	want(t, "bad", r.do("POST", "/webhooks/lab", "a\nb", "X-Lab", "twice").StatusCode, 401)
	if len(p.all()) != 0 || r.counted("lab", refused, "empty") != 2 || r.counted("lab", refused, "mismatch") != 1 {
		t.Error("produced, or not counted")
	}
}

// O11, O13: what cannot be read is kept for people, and the others go on.
func TestWhatCannotBeReadOfABatchIsKeptBesideTheOthers(t *testing.T) {
	p := &fakeProducer{}
	r := startLab(t, config(), p, batches())
	want(t, "one unreadable of three", r.do("POST", "/webhooks/lab", "a\n?\nc").StatusCode, 200)
	kept := p.kept(t)
	unreadable := 0
	for id, e := range kept {
		if e.Type == event.Unreadable {
			if unreadable++; string(e.Body) != "?" || !strings.HasPrefix(id, "sha256:") {
				t.Errorf("%+v", e)
			}
		}
	}
	if len(kept) != 3 || unreadable != 1 || r.counted("lab", accepted, "unreadable") != 1 {
		t.Errorf("%d kept, %d unreadable", len(kept), unreadable)
	}
	for name, body := range map[string]string{"no batch": "no batch", "too many items": "a" + strings.Repeat("\n", maxItems)} {
		want(t, name, r.do("POST", "/webhooks/lab", body).StatusCode, 200)
		if e := p.last(t); e.Type != event.Unreadable || string(e.Body) != body {
			t.Errorf("%s: kept as %s %.20q", name, e.Type, e.Body)
		}
	}
	want(t, "as many as may be", r.do("POST", "/webhooks/lab", "a"+strings.Repeat("\na", maxItems-1)).StatusCode, 200)
	if n := len(p.all()); n != 5+maxItems {
		t.Errorf("%d records", n)
	}
}

// heavy is a batch whose items are larger together than the whole, as those are that
// repeat a common part.
type heavy struct{ batching }

func (heavy) Split(body []byte) (items [][]byte, err error) {
	for range 40 {
		items = append(items, body)
	}
	return items, nil
}

func TestABatchesItemsCountInTheMemoryOfBodies(t *testing.T) {
	release := make(chan struct{})
	p := &fakeProducer{do: func(context.Context, kafka.Record) error { <-release; return nil }}
	cfg := config()
	cfg.BodyBytes = 8 << 20
	r := startLab(t, cfg, p, endpoint.Endpoint{Name: "lab", Provider: heavy{batches().Provider.(batching)}})
	var all sync.WaitGroup
	body := strings.Repeat("a", 100<<10)
	all.Go(func() { want(t, "within", r.do("POST", "/webhooks/lab", body).StatusCode, 200) })
	until(t, "it is held", func() bool { return r.bodies.taken.Load() >= 40*100<<10 })
	want(t, "a second one", r.do("POST", "/webhooks/lab", body).StatusCode, 503)
	close(release)
	all.Wait()
	if n := len(p.all()); n != 40 {
		t.Errorf("%d records", n)
	}
	want(t, "one that never fits", r.do("POST", "/webhooks/lab", strings.Repeat("a", 300<<10)).StatusCode, 200)
	if e := p.last(t); e.Type != event.Unreadable || len(e.Body) != 300<<10 {
		t.Errorf("kept as %s", e.Type)
	}
	if n := r.bodies.taken.Load(); n != 0 {
		t.Errorf("%d bytes were never given back", n)
	}
}

// The whole batch is sent again unless every item is kept: the answer is the worst one's.
func TestABatchesAnswerIsThatOfItsWorstItem(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		o      outcome
		reason string
	}{
		{&kafka.Unavailable{Reason: "full", RetryAfter: 5 * time.Second}, 503, unavailable, "full"},
		{kafka.ErrTooLarge, 413, refused, "too_large"},
	} {
		for _, bad := range []string{"a", "d", "f"} {
			p := &fakeProducer{do: func(_ context.Context, r kafka.Record) error {
				if string(r.Key) == bad {
					return c.err
				}
				return nil
			}}
			r := startLab(t, config(), p, batches())
			res := r.do("POST", "/webhooks/lab", "a\nb\nc\nd\ne\nf")
			if text, _ := io.ReadAll(res.Body); res.StatusCode != c.status || len(text) != 0 || r.counted("lab", c.o, c.reason) != 1 {
				t.Errorf("%s: answered %d %q", bad, res.StatusCode, text)
			}
			if len(p.all()) != 5 {
				t.Errorf("%s: the others were not all tried: %d", bad, len(p.all()))
			}
		}
	}
}

// O08: nothing is answered before every item is acknowledged, and they are sent
// together, not one after the other.
func TestABatchWaitsForAllItsItemsTogether(t *testing.T) {
	var arrived sync.WaitGroup
	arrived.Add(6)
	release := make(chan struct{})
	p := &fakeProducer{do: func(_ context.Context, r kafka.Record) error {
		arrived.Done()
		if string(r.Key) == "d" {
			<-release
		}
		return nil
	}}
	r := startLab(t, config(), p, batches())
	answered := make(chan int, 1)
	go func() { answered <- r.do("POST", "/webhooks/lab", "a\nb\nc\nd\ne\nf").StatusCode }()
	arrived.Wait()
	until(t, "five are kept", func() bool { return len(p.all()) == 5 })
	select {
	case s := <-answered:
		t.Errorf("answered %d before the last was kept", s)
	default:
	}
	close(release)
	if s := <-answered; s != 200 {
		t.Errorf("answered %d", s)
	}
}

// O08: six items, the fourth's partition fails: 503, and the retry of all keeps the
// fourth. What lies twice then has one identity, and dedupe drops it.
func TestTheRetryOfABatchWhoseFourthItemFailedLeavesOneIdentityAnItem(t *testing.T) {
	c, brokers := broker(t)
	reg := prometheus.NewRegistry()
	cfg := config()
	in, err := New(t.Context(), cfg, brokers, endpoints(t), quiet, reg)
	if err != nil {
		t.Fatal(err)
	}
	addLab(in, batches())
	r := serve(t, in, reg)
	partitions := int(kafka.Topics[0].Partitions) // the raw topic's
	place := func(id string) int {                // as the client places a key
		return kgo.StickyKeyPartitioner(nil).ForTopic("raw").Partition(&kgo.Record{Key: []byte(id)}, partitions)
	}
	var ids []string
	fourth := "psp_4"
	for i := 0; len(ids) < 6; i++ { // the others lie elsewhere
		id := fmt.Sprint("psp_x", i)
		if len(ids) == 3 {
			id = fourth
		} else if place(id) == place(fourth) {
			continue
		}
		ids = append(ids, id)
	}
	body := strings.Join(ids, "\n")
	fault := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Partitions: []int32{int32(place(fourth))}, Err: kerr.InvalidRecord, Count: -1})
	want(t, "with the fourth failing", r.do("POST", "/webhooks/lab", body).StatusCode, 503)
	fault.Remove()
	if n := fault.Hits(); n == 0 {
		t.Fatal("nothing failed: the test shows nothing")
	}
	until(t, "the retry is taken", func() bool { return r.do("POST", "/webhooks/lab", body).StatusCode == http.StatusOK })
	got := rawIDs(t, brokers, ids)
	for _, id := range ids {
		if twice := id != fourth; (got[id] == 2) != twice || got[id] < 1 {
			t.Errorf("%s lies there %d times", id, got[id])
		}
	}
	// Equal in source, mode and id, and so in the key that dedupe looks up.
	hashes := map[[16]byte]bool{}
	for _, id := range slices.Concat(ids, ids) {
		hashes[event.Event{Source: "lab", Mode: event.Live, ID: id}.Hash()] = true
	}
	if len(hashes) != 6 {
		t.Errorf("%d identities", len(hashes))
	}
}
