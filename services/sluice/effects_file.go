package main

import (
	"os"

	"sluice/pkg/effect"
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
