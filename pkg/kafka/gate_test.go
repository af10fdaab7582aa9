package kafka

import (
	"testing"
	"time"
)

// at is virtual time: milliseconds after a fixed moment.
func at(ms int) time.Time {
	return time.Unix(1_800_000_000, 0).Add(time.Duration(ms) * time.Millisecond)
}

func admits(t *testing.T, g *gate, ms int, want bool) {
	t.Helper()
	if got := g.admit(at(ms)); got != want {
		t.Fatalf("at %d ms: admitted %v, want %v", ms, got, want)
	}
}

func TestTheGateStaysOpenWhileAcknowledgementsCome(t *testing.T) {
	g := &gate{}
	for ms := 0; ms < 10_000; ms += 400 { // each answered 399 ms later, always one pending
		admits(t, g, ms, true)
		admits(t, g, ms, true)
		g.acked(at(ms + 399))
	}
}

func TestTheGateShutsWhenAnAcknowledgementIsOwedForHalfASecond(t *testing.T) {
	g := &gate{}
	admits(t, g, 0, true)
	admits(t, g, 499, true)
	admits(t, g, 500, true) // the first probe
	admits(t, g, 501, false)
	admits(t, g, 749, false)
	admits(t, g, 750, true) // one probe in 250 ms
	admits(t, g, 751, false)
	if g.open(at(760)) {
		t.Fatal("ready although shut")
	}
	g.acked(at(800))
	admits(t, g, 801, true)
	admits(t, g, 802, true)
	if !g.open(at(803)) {
		t.Fatal("not ready after an acknowledgement")
	}
}

func TestAPauseBetweenRecordsDoesNotShutTheGate(t *testing.T) {
	g := &gate{}
	admits(t, g, 0, true)
	g.acked(at(5))
	admits(t, g, 60_000, true)
	admits(t, g, 60_499, true)
	admits(t, g, 60_500, true) // probe
	admits(t, g, 60_501, false)
}

// O30: brokers that refuse at once (topic gone, no right to write) are an outage too.
func TestRefusalsInARowShutTheGateThoughNothingIsPending(t *testing.T) {
	g := &gate{}
	for ms := 0; ms < 500; ms += 10 {
		admits(t, g, ms, true)
		g.refused(at(ms + 1))
	}
	admits(t, g, 510, true) // probe
	g.refused(at(511))
	admits(t, g, 512, false)
	if g.open(at(513)) {
		t.Fatal("ready although every record was refused")
	}
	// Nothing pending and no traffic: readiness must come back to let a probe in.
	if !g.open(at(10_511)) {
		t.Fatal("never ready again")
	}
	admits(t, g, 10_511, true)
	g.acked(at(10_512))
	admits(t, g, 10_513, true)
	admits(t, g, 10_514, true)
}

func TestOneRefusalAmongAcknowledgementsChangesNothing(t *testing.T) {
	g := &gate{}
	for ms := 0; ms < 5000; ms += 100 {
		admits(t, g, ms, true)
		admits(t, g, ms, true)
		g.refused(at(ms + 10))
		g.acked(at(ms + 20))
	}
}
