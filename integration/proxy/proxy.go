// Package proxy stands between a program under test and a Kafka broker, so that
// a test can hold, delay or cut what passes, without a hook in the program: the
// answer to a Produce that the broker has stored, an OffsetCommit that never
// arrives, a broker that is away.
package proxy

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Kafka API keys that tests name (kafka.apache.org/protocol).
const (
	Produce       int16 = 0
	Fetch         int16 = 1
	Metadata      int16 = 3
	OffsetCommit  int16 = 8
	EndTxn        int16 = 26
	findCoord     int16 = 10
	describeClust int16 = 60
)

// Proxy forwards to one broker, and names itself where the broker would name
// its own address, so that a client never gets around it.
type Proxy struct {
	upstream string
	listener net.Listener

	mu        sync.Mutex
	away      bool
	conns     map[net.Conn]struct{}
	responses map[int16]*rule
	requests  map[int16]*rule
}

// rule holds or delays one kind of frame.
type rule struct {
	delay time.Duration
	gate  chan struct{} // closed on release; nil: no hold
	hit   chan struct{} // closed when the first frame is held
	once  sync.Once
}

// Start listens on a loopback port and forwards to upstream (host:port).
func Start(upstream string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the proxy: %w", err)
	}
	p := &Proxy{upstream: upstream, listener: l, conns: map[net.Conn]struct{}{},
		responses: map[int16]*rule{}, requests: map[int16]*rule{}}
	go p.accept()
	return p, nil
}

// Addr is what the program under test takes for its broker.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Close ends the proxy and every connection through it.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.Cut()
}

// Cut takes the broker away: connections end, new ones are refused at once.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = true
	for c := range p.conns {
		_ = c.Close()
	}
}

// Restore brings the broker back.
func (p *Proxy) Restore() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = false
}

// HoldResponses keeps the broker's answers to key from the client: the broker has
// done the work, the client does not know. held is closed with the first one;
// release lets them go.
func (p *Proxy) HoldResponses(key int16) (held <-chan struct{}, release func()) {
	return p.hold(p.responses, key)
}

// HoldRequests keeps requests of key from the broker.
func (p *Proxy) HoldRequests(key int16) (held <-chan struct{}, release func()) {
	return p.hold(p.requests, key)
}

// DelayResponses slows every answer to key by d; 0 ends it.
func (p *Proxy) DelayResponses(key int16, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.responses[key] = &rule{delay: d}
}

func (p *Proxy) hold(rules map[int16]*rule, key int16) (<-chan struct{}, func()) {
	r := &rule{gate: make(chan struct{}), hit: make(chan struct{})}
	p.mu.Lock()
	rules[key] = r
	p.mu.Unlock()
	var once sync.Once
	return r.hit, func() {
		once.Do(func() {
			p.mu.Lock()
			if rules[key] == r {
				delete(rules, key)
			}
			p.mu.Unlock()
			close(r.gate)
		})
	}
}

// pass waits as long as the rule for key says; a delay counts from read, when the
// frame came in, so that frames behind each other are late together.
func (p *Proxy) pass(rules map[int16]*rule, key int16, read time.Time) {
	p.mu.Lock()
	r := rules[key]
	p.mu.Unlock()
	if r == nil {
		return
	}
	if r.gate != nil {
		r.once.Do(func() { close(r.hit) })
		<-r.gate
	}
	if wait := time.Until(read.Add(r.delay)); r.delay > 0 && wait > 0 {
		<-time.After(wait)
	}
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		go p.serve(c)
	}
}

func (p *Proxy) track(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away {
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *Proxy) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	if !p.track(client) {
		return
	}
	broker, err := net.Dial("tcp", p.upstream)
	if err != nil {
		return
	}
	defer func() { _ = broker.Close() }()
	if !p.track(broker) {
		return
	}
	var pending sync.Map // correlation id -> request, for its answer's shape
	go func() {
		defer func() { _ = broker.Close() }()
		p.forward(client, broker, func(frame []byte, read time.Time) ([]byte, error) {
			if len(frame) < 8 {
				return nil, io.ErrUnexpectedEOF
			}
			q := request{key: int16(binary.BigEndian.Uint16(frame)), version: int16(binary.BigEndian.Uint16(frame[2:]))}
			pending.Store(binary.BigEndian.Uint32(frame[4:]), q)
			p.pass(p.requests, q.key, read)
			return frame, nil
		})
	}()
	p.forward(broker, client, func(frame []byte, read time.Time) ([]byte, error) {
		if len(frame) < 4 {
			return nil, io.ErrUnexpectedEOF
		}
		q, ok := pending.LoadAndDelete(binary.BigEndian.Uint32(frame))
		if !ok {
			return frame, nil
		}
		p.pass(p.responses, q.(request).key, read)
		return p.rename(q.(request), frame)
	})
}

type request struct{ key, version int16 }

// frame is one message of the protocol without its size.
type frame struct {
	bytes []byte
	read  time.Time
}

// forward copies frames (int32 size, then so many bytes) from one side to the
// other, each through change.
func (p *Proxy) forward(from, to net.Conn, change func([]byte, time.Time) ([]byte, error)) {
	frames := make(chan frame, 1024)
	go func() {
		defer close(frames)
		var size [4]byte
		for {
			if _, err := io.ReadFull(from, size[:]); err != nil {
				return
			}
			b := make([]byte, binary.BigEndian.Uint32(size[:]))
			if _, err := io.ReadFull(from, b); err != nil {
				return
			}
			frames <- frame{b, time.Now()}
		}
	}()
	defer func() { // ends the reader, whatever it is about to send
		_ = from.Close()
		for range frames {
		}
	}()
	for f := range frames {
		b, err := change(f.bytes, f.read)
		if err != nil {
			return
		}
		out := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(b)), uint32(len(b)))
		if _, err := to.Write(append(out, b...)); err != nil {
			return
		}
	}
}

// rename puts the proxy's address where the answer names the broker's.
func (p *Proxy) rename(q request, frame []byte) ([]byte, error) {
	if q.key != Metadata && q.key != findCoord && q.key != describeClust {
		return frame, nil
	}
	resp := kmsg.ResponseForKey(q.key)
	resp.SetVersion(q.version)
	head := 4 // correlation id
	if resp.IsFlexible() {
		head++ // and an empty tag section
	}
	if err := resp.ReadFrom(frame[head:]); err != nil {
		return nil, fmt.Errorf("read the broker's answer to request %d: %w", q.key, err)
	}
	addr := p.listener.Addr().(*net.TCPAddr)
	host, port := addr.IP.String(), int32(addr.Port)
	switch r := resp.(type) {
	case *kmsg.MetadataResponse:
		for i := range r.Brokers {
			r.Brokers[i].Host, r.Brokers[i].Port = host, port
		}
	case *kmsg.FindCoordinatorResponse:
		r.Host, r.Port = host, port
		for i := range r.Coordinators {
			r.Coordinators[i].Host, r.Coordinators[i].Port = host, port
		}
	case *kmsg.DescribeClusterResponse:
		for i := range r.Brokers {
			r.Brokers[i].Host, r.Brokers[i].Port = host, port
		}
	}
	return resp.AppendTo(frame[:head:head]), nil
}
