package terminal

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// Bar shows how far long work is; only on a terminal, and only if it takes
// longer than half a second.
type Bar struct {
	done  atomic.Int64
	quit  chan struct{}
	ended chan struct{}
}

const barWidth = 30

// Bar begins work of total steps.
func (p *Printer) Bar(total int) *Bar {
	b := &Bar{quit: make(chan struct{}), ended: make(chan struct{})}
	if !p.live || total == 0 {
		close(b.ended)
		return b
	}
	began := time.Now()
	go func() {
		defer close(b.ended)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-b.quit:
				_, _ = fmt.Fprint(p.w, "\r\x1b[K")
				return
			case <-tick.C:
			}
			if time.Since(began) < 500*time.Millisecond {
				continue
			}
			n := int(b.done.Load())
			full := barWidth * n / total
			rate := float64(n) / time.Since(began).Seconds()
			_, _ = fmt.Fprintf(p.w, "\r\x1b[K  %s%s %d of %d, %.0f/s", strings.Repeat("━", full), p.Dim(strings.Repeat("─", barWidth-full)), n, total, rate)
		}
	}()
	return b
}

// Add says that n more steps are done.
func (b *Bar) Add(n int) { b.done.Add(int64(n)) }

// End takes the bar away; once.
func (b *Bar) End() {
	close(b.quit)
	<-b.ended
}
