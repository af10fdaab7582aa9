package again

import (
	"context"
	"time"

	"sluice/pkg/effect"
	"sluice/pkg/postgres"
	"sluice/services/processor"
)

// Forecast is what reading records anew would come to, found out in a scratch schema.
type Forecast struct {
	Done
	// Compared is how many orders were held against the live state, and Orders are those
	// that differ.
	Compared int                   `json:"compared"`
	Orders   []postgres.Difference `json:"orders"`
	// At is the moment of the live state.
	At time.Time `json:"at"`
	// Schema is the scratch schema, if it was kept.
	Schema string `json:"schema,omitempty"`
}

// Shadowing says how a forecast is made.
type Shadowing struct {
	Database postgres.Config
	Effects  effect.Set
	// Whole rebuilds every order from nothing but the records and what no record says;
	// else the records are read anew into copies of the live sets.
	Whole bool
	// Keep leaves the scratch schema there.
	Keep bool
	// Total hears how many steps there are, and Step how many were done.
	Total, Step func(int)
}

// shadowConns: one transaction, and copies.
const shadowConns = 3

// Forecast reads a selection anew in a shadow of the live orders, as of now. Live
// tables are only read.
func (s *Source) Forecast(ctx context.Context, sel Selection, deps processor.AgainDeps, how Shadowing) (f Forecast, err error) {
	shadow, err := postgres.OpenShadow(ctx, how.Database, shadowConns)
	if err != nil {
		return f, err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		if e := shadow.Close(closing); err == nil {
			err = e
		}
	}()
	f.At = deps.Now().UTC()
	s.At(shadow.Applied)
	n, err := s.Estimate(ctx, sel)
	if err != nil {
		return f, err
	}
	deps.Store, deps.Scratch, deps.Window, deps.Journal = shadow.Store.WithEffects(how.Effects), true, s.store.WindowAt(deps.Now()), false
	if how.Whole {
		spans, err := s.Spans(ctx, *sel.Span)
		if err != nil {
			return f, err
		}
		begins, err := s.begins(ctx, spans)
		if err != nil {
			return f, err
		}
		how.Total(int(n) + shadow.Orders())
		if err := shadow.BringBare(ctx, deps.Now(), begins, how.Step); err != nil {
			return f, err
		}
	} else {
		how.Total(int(n))
		deps.Before = shadow.Bring
	}
	if f.Done, err = s.look(ctx, sel, deps, shadow.IndexEntries, how.Step); err != nil {
		return f, err
	}
	f.Compared, err = shadow.Differences(ctx, func(d postgres.Difference) { f.Orders = append(f.Orders, d) })
	if err == nil && how.Keep {
		f.Schema = shadow.Schema
		err = shadow.Keep(ctx)
	}
	return f, err
}
