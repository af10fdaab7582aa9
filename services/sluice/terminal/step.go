package terminal

import (
	"fmt"
	"sync"
	"time"
)

// Step shows that something takes a while: on a terminal one line with a clock
// that is replaced by its result, elsewhere only the result.
type Step struct {
	p     *Printer
	name  string
	began time.Time
	once  sync.Once
	quit  chan struct{}
	ended chan struct{}

	mu   sync.Mutex // of the line on the terminal
	note string
}

// Step begins to wait for name.
func (p *Printer) Step(name string) *Step {
	s := &Step{p: p, name: name, began: time.Now(), quit: make(chan struct{}), ended: make(chan struct{})}
	if !p.live {
		close(s.ended)
		return s
	}
	go func() {
		defer close(s.ended)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			s.mu.Lock()
			_, _ = fmt.Fprintf(p.w, "\r\x1b[K  … %s %s", s.name, p.Dim(seconds(time.Since(s.began))))
			s.mu.Unlock()
			select {
			case <-s.quit:
				_, _ = fmt.Fprint(p.w, "\r\x1b[K")
				return
			case <-tick.C:
			}
		}
	}()
	return s
}

// Note says in a line of its own why the wait goes on, once for each new reason.
func (s *Step) Note(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if why == s.note {
		return
	}
	s.note = why
	if s.p.live {
		_, _ = fmt.Fprint(s.p.w, "\r\x1b[K")
	}
	s.p.Line("  … %s", why)
}

// Done ends the wait well; detail says what there is now.
func (s *Step) Done(detail string) { s.end(s.p.Green("✓"), detail) }

// Fail ends the wait badly.
func (s *Step) Fail() { s.end(s.p.Red("✗"), "failed") }

func (s *Step) end(mark, detail string) {
	s.once.Do(func() {
		close(s.quit)
		<-s.ended
		s.p.Line("  %s %-11s %s %s", mark, s.name, detail, s.p.Dim("("+seconds(time.Since(s.began))+")"))
	})
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
