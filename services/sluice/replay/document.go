package replay

import (
	"cmp"
	"context"
	"time"

	"sluice/pkg/kafka"
	"sluice/pkg/replay"
)

// DryRun says what the records of some ranges would do, and changes nothing. step
// hears of every record read.
type DryRun func(ctx context.Context, topicID [16]byte, ranges []kafka.Range, step func(n int)) (*Outlook, error)

// Document is a plan as it is shown, agreed on and kept.
type Document struct {
	// Asked is what was asked for, in the words of the command line.
	Asked string `json:"asked"`
	replay.Plan
	Records int64 `json:"records"`
	Ahead   int64 `json:"ahead"`
	// Outlook is the dry run's; nil: there was none.
	Outlook *Outlook `json:"dry_run,omitempty"`
	// Seconds is about how long it will take, at Rate records a second if they are known.
	Seconds  float64 `json:"estimated_seconds"`
	Rate     float64 `json:"rate"`
	Measured bool    `json:"rate_measured"` // by replays before
	Digest   string  `json:"digest"`
}

// Asked is what somebody wants.
type Asked struct {
	Words   string
	Target  replay.Target
	Allowed replay.Allowed
}

// Plan makes the plan. dry is nil if nobody wants to know what the records would do;
// else begin hears how many there are to look at, and step of every one.
func (p *Place) Plan(ctx context.Context, asked Asked, dry DryRun, begin func(records int64), step func(n int)) (*Document, error) {
	topicID, err := p.offsets.TopicID(ctx)
	if err != nil {
		return nil, err
	}
	w, err := p.World(ctx, asked.Target.At)
	if err != nil {
		return nil, err
	}
	plan, err := replay.Make(asked.Target, w, asked.Allowed)
	if err != nil {
		return nil, err
	}
	d := &Document{Asked: asked.Words, Plan: plan, Records: plan.Records(), Ahead: plan.Ahead()}
	var agreed any
	fresh := int64(0)
	if dry != nil && d.Records > 0 {
		begin(d.Records)
		if d.Outlook, err = dry(ctx, topicID, d.ranges(), step); err != nil {
			return nil, err
		}
		agreed, fresh = d.Outlook.Agreed(), d.Outlook.Fresh()
	}
	measured, err := p.Rate(ctx)
	if err != nil {
		return nil, err
	}
	d.Rate, d.Measured = cmp.Or(measured, replay.KnownRate), measured > 0
	d.Seconds = plan.Estimate(fresh, measured).Round(time.Millisecond).Seconds()
	d.Digest = plan.Digest(agreed)
	return d, nil
}

// ranges are what is read again.
func (d *Document) ranges() (all []kafka.Range) {
	for _, s := range d.Steps {
		if s.Records > 0 {
			all = append(all, kafka.Range{Partition: s.Partition, From: s.To, Before: s.To + s.Records})
		}
	}
	return all
}
