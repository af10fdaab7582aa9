package integration

import (
	"strings"
	"testing"
	"time"

	"sluice/integration/harness"
)

// The demo is what a newcomer runs first: everything embedded, a shuffled and
// duplicated day, each order's story, and an exit code that means the books add up.
func TestTheDemoRunsByItselfAndItsBooksAddUp(t *testing.T) {
	p := harness.Start(t, []string{"NO_COLOR=1"}, "dev", "--demo", "--exit", "--data-dir", t.TempDir())
	if code := p.Wait(3 * time.Minute); code != 0 {
		t.Fatalf("the demo ended with %d\n%s", code, p.Output())
	}
	for _, want := range []string{"development broker", "unaccounted", "refunded", "paid"} {
		if !strings.Contains(p.Output(), want) {
			t.Errorf("the demo does not say %q:\n%s", want, p.Output())
		}
	}
}
