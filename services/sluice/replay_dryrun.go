package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"sluice/pkg/kafka"
	"sluice/services/processor"
	replaying "sluice/services/sluice/replay"
)

// dryRun says what records would do, with what the processors of the deployment know:
// their endpoints, mode and effects must be declared here, too.
func (p *replayPlace) dryRun(ctx context.Context) (replaying.DryRun, error) {
	s, err := read[processorSettings](p.env)
	if err != nil {
		return nil, err
	}
	endpoints, err := s.Deployment.readings()
	if err != nil {
		return nil, err
	}
	if err := s.Effects.agree(ctx, p.store); err != nil {
		return nil, fmt.Errorf("which effects would be caused: %w", err)
	}
	log := slog.New(slog.DiscardHandler)
	deps := processor.DryRunDeps{Store: p.store, Endpoints: endpoints, Mode: s.Deployment.Mode, Log: log, Now: time.Now}
	return func(ctx context.Context, topicID [16]byte, ranges []kafka.Range, step func(n int)) (*replaying.Outlook, error) {
		d, err := processor.NewDryRun(ctx, deps, processor.DryRunOptions{TopicID: topicID, Batch: s.Processor.Batch})
		if err != nil {
			return nil, err
		}
		err = kafka.Scan(ctx, p.kafka, log, p.kafka.Topic(kafka.Raw), ranges, kafka.ChunkRecords, func(c kafka.Chunk) error {
			step(c.Len())
			return d.AddChunk(ctx, c)
		})
		if err != nil {
			return nil, fmt.Errorf("to see what the records would do: %w", err)
		}
		return &replaying.Outlook{Outlook: d.Report()}, nil
	}, nil
}
