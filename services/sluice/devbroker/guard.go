package devbroker

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A frame is at least the request header's fixed part (key, version,
// correlation id) and at most what Kafka takes by default
// (socket.request.max.bytes).
const (
	minFrame = 8
	maxFrame = 100 << 20
)

var errHostile = errors.New("not a Kafka request")

// guard stands before the broker, which trusts a frame's size and dies of an API
// key it does not know: a frame that no Kafka client would send ends its
// connection, and nothing else.
type guard struct {
	tcp   net.Listener
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newGuard(tcp net.Listener) *guard {
	return &guard{tcp: tcp, conns: make(chan net.Conn), done: make(chan struct{})}
}

// open begins to take connections from the network. Until then only dial's reach
// the broker; others wait in the listener's backlog.
func (g *guard) open() {
	go func() {
		for {
			c, err := g.tcp.Accept()
			if err != nil {
				return
			}
			if !g.hand(c) {
				return
			}
		}
	}()
}

// dial connects from inside this process.
func (g *guard) dial() (net.Conn, error) {
	here, there := net.Pipe()
	if !g.hand(there) {
		return nil, net.ErrClosed
	}
	return here, nil
}

func (g *guard) hand(c net.Conn) bool {
	select {
	case g.conns <- &conn{Conn: c}:
		return true
	case <-g.done:
		_ = c.Close()
		return false
	}
}

// Accept, Close and Addr make guard a net.Listener.
func (g *guard) Accept() (net.Conn, error) {
	select {
	case c := <-g.conns:
		return c, nil
	case <-g.done:
		return nil, net.ErrClosed
	}
}

func (g *guard) Close() error {
	g.once.Do(func() { close(g.done) })
	return g.tcp.Close()
}

func (g *guard) Addr() net.Addr { return g.tcp.Addr() }

// conn passes whole, plausible frames on. Its Read is only ever called by one
// goroutine at a time.
type conn struct {
	net.Conn
	head [6]byte // size and API key of the frame being read
	left []byte  // what of head is not handed on yet
	body int     // bytes of the frame still on the wire
}

func (c *conn) Read(p []byte) (int, error) {
	if len(c.left) == 0 && c.body == 0 {
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	if len(c.left) > 0 {
		n := copy(p, c.left)
		c.left = c.left[n:]
		return n, nil
	}
	n, err := c.Conn.Read(p[:min(len(p), c.body)])
	c.body -= n
	return n, err
}

func (c *conn) next() error {
	if _, err := io.ReadFull(c.Conn, c.head[:]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(c.head[:4])
	key := int16(binary.BigEndian.Uint16(c.head[4:]))
	if size < minFrame || size > maxFrame || kmsg.RequestForKey(key) == nil {
		_ = c.Close()
		return errHostile
	}
	c.left, c.body = c.head[:], int(size)-2
	return nil
}
