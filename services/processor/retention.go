package processor

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"sluice/pkg/daemon"
	"sluice/pkg/endpoint"
	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
	"sluice/pkg/retention"
	"sluice/pkg/webhook"
)

const day = 24 * time.Hour

// Retention is the settings of what may go.
func (c Config) Retention() postgres.Retention {
	return postgres.Retention{Bodies: time.Duration(c.KeepBodies) * day, Transitions: time.Duration(c.KeepTransitions) * day, Archive: c.Archive}
}

// keep looks after table partitions until ctx ends. It is apart from the other chores:
// archiving a partition takes minutes.
func (p *Processor) keep(ctx context.Context) {
	tick := time.NewTicker(p.cfg.Chores)
	defer tick.Stop()
	var last time.Time
	for {
		if p.Now().Sub(last) >= partitionsEvery && p.keepPartitions(ctx) {
			last = p.Now()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (p *Processor) ensurePartitions(ctx context.Context) error {
	w, err := p.Store.EnsurePartitions(ctx, p.Now())
	if err == nil {
		p.window.Store(&w)
	}
	return err
}

// checkAhead holds the table partitions against what the next months and days need.
func (p *Processor) checkAhead(ctx context.Context) error {
	missing, err := p.Store.MissingPartitions(ctx, p.Now())
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("table partitions that will be needed are not there: %s", strings.Join(missing, ", "))
	}
	if err != nil {
		return err
	}
	tables, err := p.Store.KeptTables(ctx, p.cfg.Retention())
	if err != nil {
		return err
	}
	for _, t := range tables {
		if t.AheadUntil != nil {
			p.metrics.ahead.WithLabelValues(t.Table).Set(t.AheadUntil.Sub(p.Now()).Seconds())
		}
	}
	return nil
}

// keepPartitions makes the table partitions that come and drops those that went.
// It says whether that was all; if not it wants to be called again soon.
func (p *Processor) keepPartitions(ctx context.Context) bool {
	if err := p.ensurePartitions(ctx); err != nil {
		p.Log.Error("no table partitions were made, trying again", "error", err)
		return false
	}
	if err := p.checkAhead(ctx); err != nil {
		p.Log.Error("table partitions could not be checked, trying again", "error", err)
		return false
	}
	dropped, err := p.Store.DropBehind(ctx, p.Now(), p.cfg.Retention())
	if len(dropped.Partitions) > 0 || dropped.Undated > 0 || dropped.Hints > 0 || dropped.Lookups > 0 {
		p.Log.Info("what is old was dropped", "partitions", dropped.Partitions, "undated_events", dropped.Undated,
			"hints", dropped.Hints, "lookups", dropped.Lookups)
	}
	p.unarchived(dropped.Unarchived)
	if err != nil {
		p.Log.Error("not all that is old was dropped, trying again", "error", err)
		return false
	}
	return !dropped.Later && p.forgetEffects(ctx)
}

// unarchived tells once which partitions stay because they cannot be archived, and once
// that they can be again. They are tried again every hour: each try reads them.
func (p *Processor) unarchived(stay map[string]error) {
	p.metrics.unarchived.Set(float64(len(stay)))
	var whys []string
	for _, name := range slices.Sorted(maps.Keys(stay)) {
		whys = append(whys, fmt.Sprintf("table partition %s stays: %v", name, stay[name]))
	}
	before := p.staying.Swap(&whys)
	switch {
	case before != nil && slices.Equal(*before, whys):
	case len(whys) > 0:
		p.Log.Error("table partitions stay because they cannot be archived, trying again every hour", "partitions", len(whys), "error", whys[0])
	case before != nil:
		p.Log.Info("table partitions are archived again")
	}
}

// forgetEffects drops what is old of effects that are over.
func (p *Processor) forgetEffects(ctx context.Context) bool {
	if p.cfg.KeepAttempts == 0 {
		return true
	}
	attempts, bodies, later, err := p.Store.ForgetEffects(ctx, p.Now(), time.Duration(p.cfg.KeepAttempts)*day)
	if attempts > 0 || bodies > 0 {
		p.Log.Info("what is old of effects was dropped", "attempts", attempts, "bodies", bodies)
	}
	if err != nil {
		p.Log.Error("not all that is old of effects was dropped, trying again", "error", err)
		return false
	}
	return !later
}

// Topics are those whose retention matters, by their full names; see Horizons.
func Topics(cfg kafka.Config) []string {
	return []string{cfg.Topic(kafka.Raw), cfg.Topic(kafka.Status), cfg.Topic(kafka.DeadLetters)}
}

// Horizons are the settings that retention.Check sets against each other. kept is
// what Kafka says of Topics, nil if it was not asked; grace is the longest that an
// event is held before a person is asked.
func (c Config) Horizons(cfg kafka.Config, kept map[string]kafka.Retention, window, grace time.Duration, endpoints endpoint.Set) retention.Settings {
	keep := c.Retention()
	s := retention.Settings{Window: window, Journal: keep.Bodies, Transitions: keep.Transitions, Grace: grace, DevBroker: c.DevBroker}
	for name, to := range map[string]**retention.Topic{kafka.Raw: &s.Raw, kafka.Status: &s.Status, kafka.DeadLetters: &s.DeadLetters} {
		if r, ok := kept[cfg.Topic(name)]; ok {
			*to = &retention.Topic{Name: cfg.Topic(name), Time: r.Time, Bytes: r.Bytes, Segment: r.Segment}
		}
	}
	for _, ep := range endpoints.All() {
		s.Endpoints = append(s.Endpoints, retention.Endpoint{Name: ep.Name, Provider: ep.Provider.Name(), Repeats: webhook.RetrySpan(ep.Provider)})
	}
	return s
}

// checkRetention sets against each other how long everything is kept, and refuses to
// start where repeats would be forgotten before a replay can reach them.
func (p *Processor) checkRetention(ctx context.Context) error {
	var kept map[string]kafka.Retention
	err := daemon.Wait(ctx, p.Log, "Kafka and its topic "+p.Kafka.Topic(kafka.Raw), func(ctx context.Context) (err error) {
		kept, err = kafka.ReadRetention(ctx, p.Kafka, p.Log, Topics(p.Kafka)...)
		return err
	})
	if err != nil {
		return err
	}
	report := retention.Check(p.cfg.Horizons(p.Kafka, kept, p.Store.Window(), p.Store.LongestGrace(), p.Endpoints))
	if err := report.Refusal(); err != nil {
		return err
	}
	for _, f := range report.Of(retention.Warn) {
		p.Log.Warn(f.Says+": "+f.Change, "rule", f.Rule, "about", f.Subject)
	}
	for _, h := range report.Horizons {
		if seconds := h.Kept.Seconds(); !h.Repeats && h.Kept != 0 {
			if h.Kept == retention.Forever {
				seconds = math.Inf(1)
			}
			p.metrics.horizons.WithLabelValues(strings.ReplaceAll(h.Name, " ", "_")).Set(seconds)
		}
	}
	return nil
}
