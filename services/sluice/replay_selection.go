package main

import (
	"context"
	"errors"
)

// replaySelection is what to look at again by what it is, instead of where it lies.
type replaySelection struct{}

// given says whether any flag of the selection is there.
func (replaySelection) given() bool { return false }

// run plans, and if acts says so carries out, looking at the selection again.
func (replaySelection) run(ctx context.Context, c *console, acts replayActs, d desk) error {
	return errors.New("there is no selection")
}
