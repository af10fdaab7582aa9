package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"sluice/pkg/daemon"
	"sluice/pkg/effect"
	"sluice/pkg/postgres"
)

// effects is the effects file. Every role that decides on orders reads it: effects are
// written down with the change that causes them.
type effects struct {
	File string `env:"SLUICE_EFFECTS" help:"the effects file; without one, changes cause nothing outside"`
}

// rules reads the effects file for roles that make no calls.
func (f effects) rules() (effect.Set, error) {
	if f.File == "" {
		return effect.Set{}, nil
	}
	return effect.LoadWithoutSecrets(f.File, os.ReadFile)
}

// calls reads the effects file with what the calls need to be made.
func (f effects) calls(e environment) (effect.Set, error) {
	if f.File == "" {
		return effect.Set{}, nil
	}
	return effect.Load(f.File, e.lookup, os.ReadFile)
}

// declare gives a role's store its effects, and says which roles have others: an
// order that one of them changes does not cause the same.
func (f effects) declare(ctx context.Context, store *postgres.Store, role string, log *slog.Logger) (effect.Set, error) {
	set, err := f.rules()
	if err != nil {
		return set, err
	}
	store.WithEffects(set)
	err = daemon.Wait(ctx, log, "the database", func(ctx context.Context) error {
		others, err := store.DeclareEffects(ctx, time.Now(), role)
		if len(others) > 0 {
			log.Warn("other roles were last started with other effects: give every role the same SLUICE_EFFECTS and start it anew", "roles", others, "here", set.Rules())
		}
		return err
	})
	return set, err
}

// errOtherEffects: what is decided here would cause something else than in the roles.
var errOtherEffects = errors.New("SLUICE_EFFECTS is not what it is there")

// agree is nil if the running roles have the effects of this environment.
func (f effects) agree(ctx context.Context, store *postgres.Store) error {
	set, err := f.rules()
	if err != nil {
		return err
	}
	others, err := store.WithEffects(set).OtherEffects(ctx)
	if err != nil || len(others) == 0 {
		return err
	}
	here := "none"
	if names := set.Rules(); len(names) > 0 {
		here = strings.Join(names, ", ")
	}
	return fmt.Errorf("%w: %s were started with other effects than SLUICE_EFFECTS declares here (%s); set it to their file, or start them with this one",
		errOtherEffects, strings.Join(others, ", "), here)
}
