package reconciler

import (
	"context"
	"fmt"
	"sync"
	"time"

	"sluice/pkg/postgres"
)

// lane is what a request is made for. Each lane that wants requests gets its share of
// the account's rate, and what others leave.
type lane int

const (
	hints     lane = iota // hints that name something we know: people wait for them
	orders                // orders that hang, events that are held
	strangers             // hints that name nothing we know: anybody can have made them
	retries               // the same, asked about in vain before
	sweeps                // lists of what happened
	lanes
)

// shares are parts of 20. Whoever forges hints takes a quarter of the rate at most
// from what is honest: a fifth with invented objects, a twentieth with those that were
// asked about in vain before.
var shares = [lanes]float64{hints: 8, orders: 5, strangers: 4, retries: 1, sweeps: 2}

// What keeps the rate in every second as the provider sees it, whatever delays a
// request on its way. Slots lie so far apart that one second's worth of them lasts
// 1/used = 1.042 s: a request may be 42 ms late and still be no request too many in the
// second that begins with it. The first 20 ms of these are ours: a slot that we reach
// later is not used. The rest is the network's.
const (
	used     = 0.96
	lateness = 20 * time.Millisecond
)

// ahead is how long before its last slot is over a reconciler reserves more, besides the
// round trip to the database.
const ahead = 100 * time.Millisecond

// bunch is the longest time that one reservation covers, besides that round trip. What a
// reconciler reserves and does not use is lost to the others.
const bunch = 250 * time.Millisecond

// reserver hands out requests; *postgres.Store does it for all reconcilers.
type reserver interface {
	ReserveSlots(ctx context.Context, source string, every, lead time.Duration, n int) (postgres.Slots, error)
}

// quietError says that no request may be made before until: the provider asked, of
// this reconciler or another.
type quietError struct{ until time.Time }

func (e quietError) Error() string { return "the provider asked for quiet" }

// pace lets the requests of one account through, at its rate, shared with every other
// reconciler through the database.
type pace struct {
	source   string
	every    time.Duration
	reserver reserver

	mu      sync.Mutex
	waiting [lanes][]*turn
	passes  [lanes]float64 // how much of its share a lane has had
	latest  float64        // the pass that was served last
	slots   []time.Time    // reserved, not used, in order
	clock   clock
	trip    time.Duration // of the last reservation
	busy    bool          // a reservation is under way
	fails   int
	timer   *time.Timer // set for the first slot
}

// turn is somebody who wants to make a request.
type turn struct {
	lane lane
	come chan error // buffered: nil once the request may be made
}

func newPace(r reserver, source string, perSecond float64) *pace {
	return &pace{source: source, every: time.Duration(float64(time.Second) / (perSecond * used)), reserver: r}
}

// share is how many requests a second a lane gets at least.
func (p *pace) share(l lane) float64 {
	total := 0.0
	for _, s := range shares {
		total += s
	}
	return shares[l] / total * float64(time.Second) / float64(p.every)
}

// wait returns nil when one request must be made, now: the slot is used. A quietError
// says that there will be none for a while; other errors that ctx has ended.
func (p *pace) wait(ctx context.Context, l lane) error {
	t := &turn{lane: l, come: make(chan error, 1)}
	p.mu.Lock()
	if len(p.waiting[l]) == 0 {
		p.passes[l] = max(p.passes[l], p.latest)
	}
	p.waiting[l] = append(p.waiting[l], t)
	p.plan(context.WithoutCancel(ctx))
	p.mu.Unlock()
	select {
	case err := <-t.come:
		return err
	case <-ctx.Done():
		p.mu.Lock()
		p.leave(t)
		p.mu.Unlock()
		return fmt.Errorf("wait for the account's rate: %w", ctx.Err())
	}
}

// quiet gives back whoever waits, and uses no slot that was reserved before.
func (p *pace) quiet(until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slots = nil
	p.send(quietError{until})
}

// send answers all who wait.
func (p *pace) send(err error) {
	for l := range p.waiting {
		for _, t := range p.waiting[l] {
			t.come <- err
		}
		p.waiting[l] = nil
	}
}

func (p *pace) leave(t *turn) {
	for i, w := range p.waiting[t.lane] {
		if w == t {
			p.waiting[t.lane] = append(p.waiting[t.lane][:i:i], p.waiting[t.lane][i+1:]...)
		}
	}
}

func (p *pace) wanted() (n int) {
	for _, w := range p.waiting {
		n += len(w)
	}
	return n
}

// plan sees to it that slots are reserved for those who wait, and served when they
// come. p.mu is held.
func (p *pace) plan(ctx context.Context) {
	now := time.Now()
	if missing := p.wanted() - len(p.slots); missing > 0 && !p.busy &&
		(len(p.slots) == 0 || p.slots[len(p.slots)-1].Before(now.Add(ahead+p.trip))) {
		p.busy = true
		go p.reserve(ctx, p.trip/2, min(missing, max(1, int((bunch+p.trip)/p.every))))
	}
	if len(p.slots) == 0 {
		return
	}
	wait := p.slots[0].Sub(now)
	if p.timer == nil {
		p.timer = time.AfterFunc(wait, func() { p.serve(ctx) })
		return
	}
	p.timer.Reset(wait)
}

// reserveTimeout bounds one reservation.
const reserveTimeout = 5 * time.Second

// reserve asks the database for slots that the answer comes in time for. Nobody is told of an error: those who wait go
// on waiting, and it is tried again.
func (p *pace) reserve(ctx context.Context, lead time.Duration, n int) {
	limited, cancel := context.WithTimeout(ctx, reserveTimeout)
	sent := time.Now()
	s, err := p.reserver.ReserveSlots(limited, p.source, p.every, lead, n)
	received := time.Now()
	cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err != nil:
		p.fails++
		time.AfterFunc(backoff(50*time.Millisecond, 2*time.Second, p.fails), func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.busy = false
			p.plan(ctx)
		})
		return
	case s.QuietUntil.After(s.Now):
		p.send(quietError{received.Add(s.QuietUntil.Sub(s.Now))})
	default:
		p.trip = min(received.Sub(sent), 2*bunch) // one that took longer is no rule
		p.clock.saw(sent, received, s.Now)
		first := p.clock.local(s.First)
		for i := range n {
			p.slots = append(p.slots, first.Add(time.Duration(i)*p.every.Truncate(time.Microsecond)))
		}
	}
	p.busy, p.fails = false, 0
	p.plan(ctx)
}

// serve uses the slots whose time has come.
func (p *pace) serve(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for len(p.slots) > 0 && !p.slots[0].After(now) {
		late := now.Sub(p.slots[0]) > lateness
		p.slots = p.slots[1:]
		if !late {
			p.next()
		}
	}
	p.plan(ctx)
}

// next gives a slot to the lane that has had the least of its share.
func (p *pace) next() {
	best := lane(-1)
	for l := range lanes {
		if len(p.waiting[l]) > 0 && (best < 0 || p.passes[l] < p.passes[best]) {
			best = l
		}
	}
	if best < 0 {
		return
	}
	p.latest = p.passes[best]
	p.passes[best] += 1 / shares[best]
	p.waiting[best][0].come <- nil
	p.waiting[best] = p.waiting[best][1:]
}

// clock tells the database's time by this machine's: from the shortest round trip,
// for half of it is the error. What was learnt ages, as two clocks drift apart, and is
// forgotten when a trip cannot be explained by it: then one of them was set.
type clock struct {
	here, there time.Time
	trip        time.Duration
}

// drift is how fast two clocks may part: 500 ppm is the most that NTP corrects.
const drift = 500e-6

func (c *clock) saw(sent, received, there time.Time) {
	trip := received.Sub(sent)
	aged := c.trip + time.Duration(drift*float64(received.Sub(c.here)))
	stepped := there.Sub(c.there) - sent.Add(trip/2).Sub(c.here)
	if c.here.IsZero() || trip <= aged || stepped.Abs() > (trip+aged)/2 {
		*c = clock{here: sent.Add(trip / 2), there: there, trip: trip}
	}
}

func (c *clock) local(there time.Time) time.Time { return c.here.Add(there.Sub(c.there)) }
