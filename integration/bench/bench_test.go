package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// The benchmarks start this program as the ceiling, too.
func TestMain(m *testing.M) {
	if os.Getenv(ceilingVariable) != "" {
		if err := serveCeiling(); err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// So that the benchmarks cannot rot: they run, in seconds, and measure something.
func TestEveryMeasureRunsAndSeesNoFailure(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-quick"}, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{"ingress on development broker", "ingress on Apache Kafka", "open loop, 5,000/s", "failures ≤ 0: 0 (reached)",
		"processor on Apache Kafka", "all duplicates", "known records beside 500/s live", "processed events before", "bytes ≤ 160", "relay, a backlog of", "from commit to orders.status.v1", "from 2xx to orders.status.v1", "first order status"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table does not have %q:\n%s", want, out.String())
		}
	}
}

func TestAnUnknownMeasureIsRefusedWithThoseThatThereAre(t *testing.T) {
	if err := run(t.Context(), []string{"-only", "ingress,nonsense"}, io.Discard); err == nil || !strings.Contains(err.Error(), "processor") {
		t.Errorf("got %v", err)
	}
	if err := run(t.Context(), []string{"-write", "-quick"}, io.Discard); err == nil {
		t.Error("a quick run was written into the docs")
	}
}

func TestAFailedMeasureEndsCleanedUpAndSaysWhy(t *testing.T) {
	var order []string
	err := within(t.Context(), "m", func(s *scope) {
		s.Cleanup(func() { order = append(order, "first made") })
		s.Cleanup(func() { order = append(order, "last made") })
		s.Fatalf("broken %d", 7)
	})
	if err == nil || !strings.Contains(err.Error(), "broken 7") || strings.Join(order, ",") != "last made,first made" {
		t.Errorf("error %v, cleaned up %v", err, order)
	}
}

func TestOfAllArrivalsThirtyPercentAreDuplicatesAndEachOrderIsInOrder(t *testing.T) {
	last, repeats := map[int32]int32{}, 0
	ds := day(5_000, 3)
	for _, d := range ds {
		switch seen := last[d.order]; {
		case d.step == seen:
			last[d.order]++
		case d.step < seen:
			repeats++
		default:
			t.Fatalf("event %d of order %d came before event %d", d.step, d.order, seen)
		}
	}
	if share := float64(repeats) / float64(len(ds)); share < .28 || share > .32 {
		t.Errorf("%.3f of the arrivals are duplicates", share)
	}
	if b := body(ds[0], time.Now()); len(b) != bodySize {
		t.Errorf("a body has %d bytes", len(b))
	}
}

func TestThePageHasEveryTargetAndThePlotIsXML(t *testing.T) {
	rows := []row{{Measure: "a < b", Reached: "1", Targets: []target{atLeast("rate", 90_000, 25_000, "/s"), atMost("p99", 20, 15, "ms")}}}
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/docs", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := writeDocs(dir, rows, []string{"2 CPUs"}, time.Now()); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(dir + "/docs/benchmarks.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"rate ≥ 25,000/s: 90,000/s (reached)", "p99 ≤ 15 ms: 20 ms (missed)", "2 CPUs"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page does not have %q:\n%s", want, page)
		}
	}
	svg, err := os.ReadFile(dir + "/docs/benchmarks.svg")
	if err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(bytes.NewReader(svg))
	for err == nil {
		_, err = d.Token()
	}
	if !errors.Is(err, io.EOF) {
		t.Errorf("the plot is no XML: %v", err)
	}
}
