package kafka

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Without this a group that is idle after a failed commit lags for ever.
func TestWhatCouldNotBeCommittedIsOwedUntilItIs(t *testing.T) {
	r := replays{places: map[int32]*place{}}
	for p := range int32(3) {
		r.begin(Range{Partition: p, From: 10, Before: 10})
	}
	r.begin(Range{Partition: 2, From: 0, Before: 10}) // is being replayed
	var told []map[int32]int64
	answer := errors.New("the group is being shared out")
	commit := func(offsets map[int32]int64) error {
		told = append(told, offsets)
		return answer
	}
	says := func(err error, want ...map[int32]int64) {
		t.Helper()
		if !errors.Is(err, answer) {
			t.Errorf("got %v, want %v", err, answer)
		}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Error(diff)
		}
		told = nil
	}
	says(r.done(map[int32]int64{0: 19, 2: 19}, commit), map[int32]int64{0: 20})
	says(r.settle(commit), map[int32]int64{0: 20})
	answer = nil
	says(r.done(map[int32]int64{1: 14}, commit), map[int32]int64{1: 15})
	says(r.settle(commit), map[int32]int64{0: 20})
	says(r.settle(commit))

	answer = errors.New("again")
	says(r.done(map[int32]int64{0: 29, 1: 29}, commit), map[int32]int64{0: 30, 1: 30})
	r.leave([]int32{1}) // whoever has it now
	answer = nil
	says(r.done(map[int32]int64{0: 31}, commit), map[int32]int64{0: 32})
	says(r.settle(commit))
}
