package audit

import (
	"testing"

	"sluice/pkg/order"
)

func TestWhatIsLostOrCountedTwiceIsUnaccounted(t *testing.T) {
	books := Books{Accepted: 10, InFlight: 2, Verdicts: map[order.Verdict]int64{order.Applied: 4, order.NoChange: 1, order.Duplicate: 1, order.Held: 1, order.Dead: 1}}
	if n := books.Unaccounted(); n != 0 {
		t.Errorf("unaccounted %d, want 0", n)
	}
	books.Verdicts[order.Applied]--
	if n := books.Unaccounted(); n != 1 {
		t.Errorf("one lost: unaccounted %d, want 1", n)
	}
	books.Verdicts[order.Duplicate] += 3
	if n := books.Unaccounted(); n != -2 {
		t.Errorf("two counted twice: unaccounted %d, want -2", n)
	}
}
