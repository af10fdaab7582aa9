package processor

import (
	"context"
	"time"
)

// booksEvery is how often the books are held against Kafka's offsets, and
// booksTimeout how long that may take.
const (
	booksEvery   = time.Minute
	booksTimeout = 20 * time.Second
)

// auditBooks brings the one figure of the books up to date. Without an answer
// from Kafka or the database it keeps what it was.
func (p *Processor) auditBooks(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, booksTimeout)
	defer cancel()
	b, err := p.auditor.Figure(ctx)
	if err != nil {
		if ctx.Err() == nil {
			p.Log.Warn("the books could not be held against Kafka", "error", err)
		}
		return
	}
	n := b.Unaccounted()
	p.metrics.unaccounted.Set(float64(n))
	if n != 0 {
		p.Log.Error("the books do not add up; `sluice audit` names the events", "unaccounted", n)
	}
}
