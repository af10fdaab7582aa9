package main

import (
	"context"
	"errors"

	"sluice/pkg/daemon"
	"sluice/pkg/postgres"
)

type merchantSettings struct {
	Database postgres.Config
}

var merchantRole = role{
	name:  "merchant",
	check: func(e environment) error { _, err := read[merchantSettings](e); return err },
	start: func(ctx context.Context, p process) (daemon.Worker, error) {
		return nil, errors.New("not built yet")
	},
}
