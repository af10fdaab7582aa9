package main

import (
	"errors"
	"strings"
	"time"

	"sluice/integration/harness"
)

// firstStatus measures what a newcomer waits for: `sluice dev --demo` in an empty
// folder, until the first order's way is printed.
func firstStatus(t *scope, _ options, say progress) []row {
	harness.Program(t) // built before the clock runs
	began := time.Now()
	p := harness.Start(t, []string{"NO_COLOR=1"}, "dev", "--demo", "--exit", "--data-dir", t.TempDir())
	harness.Eventually(t, "an order's way is printed", 3*time.Minute, func() error {
		if !strings.Contains(p.Output(), "\n  = ") {
			return errors.New("not yet")
		}
		return nil
	})
	took := time.Since(began)
	if code := p.Wait(time.Minute); code != 0 {
		t.Fatalf("the demo ended with %d: %s", code, p.Output())
	}
	say("first order status after %s", took.Round(100*time.Millisecond))
	return []row{{
		Measure: "sluice dev --demo, empty folder, to the first order status", Reached: quantity(took.Seconds(), "s"),
		Targets: []target{atMost("time", took.Seconds(), 60, "s")},
	}}
}
