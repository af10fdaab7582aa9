package main

import (
	"context"

	replaying "sluice/services/sluice/replay"
)

// dryRun says what records would do, with what the processors of the deployment know.
func (p *replayPlace) dryRun(context.Context) (replaying.DryRun, error) { return nil, nil }
