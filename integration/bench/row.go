package main

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// row is one measure's outcome: what was reached, and beside it what bounds or
// precedes it, measured in the same run.
type row struct {
	Measure string
	Reached string
	// Beside is the ceiling or baseline, and Ratio is Reached by it; both empty if
	// there is none.
	Beside, Ratio string
	P50, P99      time.Duration
	Memory        int64 // peak of the measured process, bytes; 0: not measured
	Targets       []target
}

// target is a figure to reach.
type target struct {
	What     string
	Is, Want float64
	Unit     string
	AtMost   bool
}

func atLeast(what string, is, want float64, unit string) target {
	return target{What: what, Is: is, Want: want, Unit: unit}
}

func atMost(what string, is, want float64, unit string) target {
	return target{What: what, Is: is, Want: want, Unit: unit, AtMost: true}
}

func (t target) reached() bool {
	if t.AtMost {
		return t.Is <= t.Want
	}
	return t.Is >= t.Want
}

func (t target) verdict() string {
	if t.reached() {
		return "reached"
	}
	return "missed"
}

func (t target) wanted() string {
	sign := "≥"
	if t.AtMost {
		sign = "≤"
	}
	return fmt.Sprintf("%s %s %s", t.What, sign, quantity(t.Want, t.Unit))
}

func (t target) String() string {
	return fmt.Sprintf("%s: %s (%s)", t.wanted(), quantity(t.Is, t.Unit), t.verdict())
}

// quantity writes a number as people read it, in three digits or whole thousands.
func quantity(v float64, unit string) string {
	text := fmt.Sprintf("%.3g", v)
	if unit == "×" || unit == "" {
		text = fmt.Sprintf("%.4g", v) // ratios near their targets
	}
	if math.Abs(v) >= 999.5 { // %.3g would write 1e+03
		text = thousands(int64(math.Round(v)))
	}
	switch unit {
	case "", "/s", "×":
		return text + unit
	}
	return text + " " + unit
}

func thousands(n int64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func persecond(v float64) string { return quantity(v, "/s") }

func milliseconds(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return quantity(float64(d)/1e6, "ms")
}

func mebibytes(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// cells are the row as the table has it.
func (r row) cells() []string {
	var targets []string
	for _, t := range r.Targets {
		targets = append(targets, t.String())
	}
	return []string{r.Measure, r.Reached, r.Beside, r.Ratio, milliseconds(r.P50), milliseconds(r.P99), mebibytes(r.Memory), strings.Join(targets, "; ")}
}

var heads = []string{"measure", "reached", "ceiling or baseline", "ratio", "p50", "p99", "memory", "target: reached"}
