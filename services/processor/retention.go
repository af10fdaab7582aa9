package processor

import (
	"context"
	"fmt"
	"time"

	"sluice/pkg/daemon"
	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
	"sluice/pkg/webhook"
)

const day = 24 * time.Hour

// retention is the settings of what may go.
func (c Config) retention() postgres.Retention {
	return postgres.Retention{Bodies: time.Duration(c.KeepBodies) * day, Transitions: time.Duration(c.KeepTransitions) * day}
}

func (p *Processor) ensurePartitions(ctx context.Context) error {
	w, err := p.Store.EnsurePartitions(ctx, p.Now())
	if err == nil {
		p.window.Store(&w)
	}
	return err
}

// keepPartitions makes the table partitions that come and drops those that went.
// It says whether that was all; if not it wants to be called again soon.
func (p *Processor) keepPartitions(ctx context.Context) bool {
	if err := p.ensurePartitions(ctx); err != nil {
		p.Log.Error("no table partitions were made, trying again", "error", err)
		return false
	}
	dropped, err := p.Store.DropBehind(ctx, p.Now(), p.cfg.retention())
	if len(dropped.Partitions) > 0 || dropped.Undated > 0 || dropped.Hints > 0 || dropped.Lookups > 0 {
		p.Log.Info("what is old was dropped", "partitions", dropped.Partitions, "undated_events", dropped.Undated,
			"hints", dropped.Hints, "lookups", dropped.Lookups)
	}
	if err != nil {
		p.Log.Error("not all that is old was dropped, trying again", "error", err)
		return false
	}
	return !dropped.Later && p.forgetEffects(ctx)
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

// checkRetention holds how long the raw topic keeps records against how long
// their repeats are recognised.
func (p *Processor) checkRetention(ctx context.Context) error {
	topic := p.Kafka.Topic(kafka.Raw)
	var kept kafka.Retention
	err := daemon.Wait(ctx, p.Log, "Kafka and its topic "+topic, func(ctx context.Context) (err error) {
		kept, err = kafka.ReadRetention(ctx, p.Kafka, p.Log, topic)
		return err
	})
	if err != nil {
		return err
	}
	warning, err := Outlives(topic, kept, p.Store.Window(), p.cfg.DevBroker)
	if err != nil {
		return err
	}
	if warning != "" {
		p.Log.Warn(warning)
	}
	for _, ep := range p.Endpoints.All() {
		if span := webhook.RetrySpan(ep.Provider); !p.cfg.DevBroker && kept.Time+kept.Segment+span > p.Store.Window() {
			p.Log.Warn("a repeat of an old event may come after it was forgotten (its order's set still knows it): raise SLUICE_WINDOW",
				"endpoint", ep.Name, "provider_repeats_for", span, "topic_keeps", kept.Time+kept.Segment, "window", p.Store.Window())
		}
	}
	return nil
}

// Outlives says whether a topic keeps records longer than the window recognises
// repeats: then a replay would reach what is forgotten.
func Outlives(topic string, kept kafka.Retention, window time.Duration, devBroker bool) (warning string, err error) {
	const both = "topic %s keeps records %s, and repeats are recognised for %d days (SLUICE_WINDOW)"
	days := int(window / day)
	switch {
	case kept.Time >= 0 && kept.Time <= window:
		return "", nil
	case kept.Time >= 0:
		return "", fmt.Errorf(both+": a replay would reach events whose repeats are forgotten. Lower retention.ms of the topic, or raise SLUICE_WINDOW",
			topic, fmt.Sprintf("for %.1f days (retention.ms=%d)", kept.Time.Hours()/24, kept.Time.Milliseconds()), days)
	case devBroker:
		return fmt.Sprintf(both+"; that is for a development broker only", topic, "by size", days), nil
	}
	how := "for ever (retention.ms=-1, retention.bytes=-1)"
	if kept.Bytes >= 0 {
		how = fmt.Sprintf("until they are %d bytes (retention.ms=-1), however old", kept.Bytes)
	}
	return "", fmt.Errorf(both+": a replay would reach events whose repeats are forgotten. Give the topic a retention.ms of at most %d",
		topic, how, days, window.Milliseconds())
}
