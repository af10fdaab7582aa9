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
	total atomic.Int64
	note  atomic.Value // string
	quit  chan struct{}
	ended chan struct{}
}

const barWidth = 30

// Bar begins work of total steps.
func (p *Printer) Bar(total int) *Bar {
	b := &Bar{quit: make(chan struct{}), ended: make(chan struct{})}
	b.total.Store(int64(total))
	b.note.Store("")
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
			_, _ = fmt.Fprint(p.w, "\r\x1b[K"+b.line(p, time.Since(began)))
		}
	}()
	return b
}

// line is the bar after so long.
func (b *Bar) line(p *Printer, since time.Duration) string {
	n, total := b.done.Load(), max(b.total.Load(), 1)
	full := int(barWidth * min(n, total) / total)
	rate := float64(n) / since.Seconds()
	line := fmt.Sprintf("  %s%s %d of %d, %.0f/s", strings.Repeat("━", full), p.Dim(strings.Repeat("─", barWidth-full)), n, total, rate)
	if left := total - n; n > 0 && left > 0 {
		line += ", " + Roughly(time.Duration(float64(left)/rate*float64(time.Second))) + " left"
	}
	if note := b.note.Load().(string); note != "" {
		line += p.Dim("  " + note)
	}
	return line
}

// Roughly is a duration as people say it: two units at most.
func Roughly(d time.Duration) string {
	switch {
	case d < time.Second:
		return "less than 1 s"
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%d days", d/(24*time.Hour))
}

// Add says that n more steps are done.
func (b *Bar) Add(n int) { b.done.Add(int64(n)) }

// At says that n steps of total are done, and what else there is to say.
func (b *Bar) At(n, total int64, note string) {
	b.done.Store(n)
	b.total.Store(total)
	b.note.Store(note)
}

// End takes the bar away; once.
func (b *Bar) End() {
	close(b.quit)
	<-b.ended
}
