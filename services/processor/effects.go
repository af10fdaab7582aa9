package processor

import (
	"context"
	"fmt"
	"time"
)

// countEffects shows what is due outside and what failed there. What is not any more
// has no line.
func (p *Processor) countEffects(ctx context.Context) {
	counts, err := p.Store.CountEffects(ctx, p.Now())
	if err != nil {
		if ctx.Err() == nil {
			p.Log.Warn("effects could not be counted", "error", err)
		}
		return
	}
	p.metrics.effectsDue.Reset()
	p.metrics.effectAge.Reset()
	p.metrics.effectsFail.Reset()
	var notes []string
	for _, c := range counts {
		p.metrics.effectsDue.WithLabelValues(c.Effect).Set(float64(c.Due))
		p.metrics.effectsFail.WithLabelValues(c.Effect).Set(float64(c.Failed))
		note := fmt.Sprintf("effect %s: %d due, %d failed", c.Effect, c.Due, c.Failed)
		if c.Due > 0 {
			age := p.Now().Sub(c.Oldest)
			p.metrics.effectAge.WithLabelValues(c.Effect).Set(age.Seconds())
			note = fmt.Sprintf("effect %s: %d due, the oldest for %s; %d failed", c.Effect, c.Due, age.Round(time.Second), c.Failed)
		}
		if _, ok := p.Effects.Get(c.Effect); !ok {
			note += "; it is not declared here"
		}
		notes = append(notes, note)
	}
	p.notes.Store(&notes)
}

// Notes are a line for each partition that is being read again; as of the last minute,
// for each effect that waits or failed; and for each table partition that cannot be
// archived.
func (p *Processor) Notes() (notes []string) {
	for _, w := range p.workers {
		if l := w.lane.Load(); l != nil {
			notes = append(notes, l.notes()...)
		}
	}
	for _, lines := range [...]*[]string{p.notes.Load(), p.staying.Load()} {
		if lines != nil {
			notes = append(notes, *lines...)
		}
	}
	return notes
}
