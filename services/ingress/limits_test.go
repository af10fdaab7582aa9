package ingress

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/pkg/kafka"
)

// padded is a readable event of exactly size bytes.
func padded(id string, size int) []byte {
	b := paid(id)
	return append(b, bytes.Repeat([]byte{' '}, size-len(b))...)
}

// O13 (d): the limit is exact, with and without Content-Length.
func TestABodyOfTheLimitPassesAndOneByteMoreDoesNot(t *testing.T) {
	p := &fakeProducer{}
	r := start(t, config(), p)
	for _, c := range []struct{ size, status int }{{kafka.MaxBody, 200}, {kafka.MaxBody + 1, 413}, {smallBody, 200}, {smallBody + 1, 200}, {4 << 10, 200}, {300_000, 200}} {
		body := padded("evt_1", c.size)
		want(t, fmt.Sprint(c.size), r.send(body), c.status)
		req, _ := http.NewRequest(http.MethodPost, r.url+"/webhooks/shop", io.MultiReader(bytes.NewReader(body))) // chunked
		for k, v := range sign(t, time.Now(), body) {
			req.Header.Set(k, v)
		}
		res, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		want(t, fmt.Sprint(c.size, " chunked"), res.StatusCode, c.status)
		if c.status == 200 {
			for _, rec := range p.all()[len(p.all())-2:] {
				if !bytes.Equal(rec.Value, body) {
					t.Errorf("%d: the body was changed", c.size)
				}
			}
		}
	}
	if n := r.bodies.taken.Load(); n != 0 {
		t.Errorf("%d bytes of the budget were never given back", n)
	}
}

// O13 (a): an endless upload is cut soon after the limit.
func TestAnEndlessUploadIsReadLittleBeyondTheLimit(t *testing.T) {
	r := start(t, config(), &fakeProducer{})
	c := r.dial()
	if _, err := io.WriteString(c, "POST /webhooks/shop HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	sent := 0
	status := make(chan string, 1)
	go func() { line, _ := bufio.NewReader(c).ReadString('\n'); status <- line }()
	chunk := []byte("10000\r\n" + strings.Repeat("x", 0x10000) + "\r\n")
	for sent < 200<<20 {
		n, err := c.Write(chunk)
		sent += n
		if err != nil {
			break
		}
	}
	if line := <-status; !strings.Contains(line, "413") {
		t.Errorf("answered %q", line)
	}
	// Beyond what was read lies what the two sockets hold between them.
	if sent > 40<<20 {
		t.Errorf("%d MiB went in", sent>>20)
	}
}

// O13 (b): a Content-Length is refused before the body is asked for.
func TestADeclaredSizeAboveTheLimitIsRefusedUnread(t *testing.T) {
	r := start(t, config(), &fakeProducer{})
	c := r.dial()
	_, _ = io.WriteString(c, "POST /webhooks/shop HTTP/1.1\r\nHost: x\r\nContent-Length: 5368709120\r\nExpect: 100-continue\r\n\r\n")
	if line, _ := bufio.NewReader(c).ReadString('\n'); !strings.Contains(line, "413") {
		t.Errorf("answered %q", line)
	}
}

// O13 (c): slow senders hold neither memory nor the others, and are cut.
func TestSlowSendersAreCutAndDisturbNobody(t *testing.T) {
	cfg := config()
	cfg.BodyTimeout = time.Second
	r := start(t, cfg, &fakeProducer{})
	before := heap()
	var conns []net.Conn
	for range 300 { // headers, a lie about the size, one byte, and silence
		c := r.dial()
		_, _ = io.WriteString(c, "POST /webhooks/shop HTTP/1.1\r\nHost: x\r\nContent-Length: 1048576\r\n\r\nx")
		conns = append(conns, c)
	}
	until(t, "all are being read", func() bool { return r.inFlight.Load() == 300 })
	if grown := heap() - before; grown > 20<<20 {
		t.Errorf("300 slow senders hold %d MiB", grown>>20)
	}
	begin := time.Now()
	want(t, "a good request beside them", r.send(paid("evt_1")), 200)
	if took := time.Since(begin); took > time.Second {
		t.Errorf("it took %v", took)
	}
	for _, c := range conns {
		if line, _ := bufio.NewReader(c).ReadString('\n'); !strings.Contains(line, "408") {
			t.Fatalf("answered %q", line)
		}
	}
	until(t, "all are gone", func() bool { return r.inFlight.Load() == 0 })
	if r.counted("shop", aborted, "slow") != 300 {
		t.Error("not counted as slow")
	}
}

func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

func TestSlowHeadersAreCut(t *testing.T) {
	cfg := config()
	cfg.HeaderTimeout = 200 * time.Millisecond
	r := start(t, cfg, &fakeProducer{})
	c := r.dial()
	_, _ = io.WriteString(c, "POST /webhooks/shop HTTP/1.1\r\nHost: x\r\nX-")
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.ReadAll(c); err != nil {
		t.Errorf("the connection stays open: %v", err)
	}
}

// O13 (e).
func TestAMebibyteOfHeadersIsRefused(t *testing.T) {
	r := start(t, config(), &fakeProducer{})
	c := r.dial()
	go func() {
		_, _ = io.WriteString(c, "POST /webhooks/shop HTTP/1.1\r\nHost: x\r\n")
		for i := range 1024 {
			if _, err := fmt.Fprintf(c, "X-%d: %s\r\n", i, strings.Repeat("a", 1015)); err != nil {
				return
			}
		}
	}()
	if line, _ := bufio.NewReader(c).ReadString('\n'); !strings.Contains(line, "431") {
		t.Errorf("answered %q", line)
	}
}

// O13 (f): a body that ends early is no webhook, whatever its signature.
func TestABodyThatEndsEarlyProducesNothing(t *testing.T) {
	p := &fakeProducer{}
	r := start(t, config(), p)
	body := paid("evt_1")
	c := r.dial()
	_, _ = fmt.Fprintf(c, "POST /webhooks/shop HTTP/1.1\r\nHost: x\r\nStripe-Signature: %s\r\nContent-Length: %d\r\n\r\n%s", sign(t, time.Now(), body)["Stripe-Signature"], len(body)+1, body)
	_ = c.(*net.TCPConn).CloseWrite()
	if line, _ := bufio.NewReader(c).ReadString('\n'); !strings.Contains(line, "400") {
		t.Errorf("answered %q", line)
	}
	if len(p.all()) != 0 || r.counted("shop", aborted, "broken") != 1 {
		t.Error("produced, or not counted as broken")
	}
}

func TestBeyondTheNumberOfRequestsTheAnswerIs503AtOnce(t *testing.T) {
	cfg := config()
	cfg.Requests = 2
	release := make(chan struct{})
	p := &fakeProducer{do: func(context.Context, kafka.Record) error { <-release; return nil }}
	r := start(t, cfg, p)
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() { want(t, "within", r.send(paid(fmt.Sprint("evt_", i))), 200) })
	}
	until(t, "two are held", func() bool { return r.inFlight.Load() == 2 })
	want(t, "beyond", r.send(paid("evt_3")), 503)
	close(release)
	wg.Wait()
	want(t, "after", r.send(paid("evt_4")), 200)
}

func TestLargeBodiesBeyondTheBudgetAreRefusedAndSmallOnesAreNot(t *testing.T) {
	cfg := config()
	cfg.BodyBytes = kafka.MaxBody
	release := make(chan struct{})
	p := &fakeProducer{do: func(context.Context, kafka.Record) error { <-release; return nil }}
	r := start(t, cfg, p)
	var wg sync.WaitGroup
	wg.Go(func() { want(t, "the first large one", r.send(padded("evt_1", 900<<10)), 200) })
	until(t, "it is held", func() bool { return r.bodies.taken.Load() >= 900<<10 })
	want(t, "the second large one", r.send(padded("evt_2", 900<<10)), 503)
	wg.Go(func() { want(t, "a small one", r.send(padded("evt_3", smallBody)), 200) })
	until(t, "it came in", func() bool { return r.inFlight.Load() == 2 })
	close(release)
	wg.Wait()
	want(t, "a large one after", r.send(padded("evt_4", 900<<10)), 200)
	if n := r.bodies.taken.Load(); n != 0 {
		t.Errorf("%d bytes were never given back", n)
	}
}

func (r *running) dial() net.Conn {
	r.t.Helper()
	c, err := net.Dial("tcp", r.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}
