package main

import (
	"context"
	"errors"
	"time"

	"sluice/pkg/daemon"
	"sluice/pkg/postgres"
	"sluice/services/merchant"
)

type merchantSettings struct {
	Database postgres.Config
	Merchant merchant.Config
}

// merchantConns bounds the requests that are in the database at a time.
const merchantConns = 8

var merchantRole = role{
	name:     "merchant",
	database: true,
	check: func(e environment) error {
		s, err := read[merchantSettings](e)
		return errors.Join(err, s.Database.Check(), s.Merchant.Check())
	},
	start: func(ctx context.Context, p process) (daemon.Worker, error) {
		s, err := read[merchantSettings](p.env)
		if err = errors.Join(err, s.Merchant.Check()); err != nil {
			return nil, err
		}
		store, err := openStore(ctx, s.Database, merchantConns, p.log)
		if err != nil {
			return nil, err
		}
		m, err := merchant.New(s.Merchant, merchant.Deps{Log: p.log, Reg: p.reg, Store: store, Now: time.Now})
		if err != nil {
			store.Close()
			return nil, err
		}
		return closing{m, store.Close}, nil
	},
}
