package effects

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

func declaration(name, target string) string {
	return fmt.Sprintf("  - {name: %s, on: {to: paid}, url: %q, secret: env:SECRET, allow: [127.0.0.1], timeout: 2s}\n", name, target)
}

func ok(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

func defaults() Config {
	cfg := config()
	cfg.Concurrency, cfg.PerDestination, cfg.Poll = 256, 32, 100*time.Millisecond
	return cfg
}

// BenchmarkEffects calls a receiver on this machine.
func BenchmarkEffects(b *testing.B) {
	const n = 20_000
	s := httptest.NewServer(http.HandlerFunc(ok))
	b.Cleanup(s.Close)
	for b.Loop() {
		b.StopTimer()
		w := newWorld(b)
		w.add("fulfil", n)
		w.exec("ANALYZE effects")
		b.StartTimer()
		began := time.Now()
		_, stop := w.start("a", defaults(), declaration("fulfil", s.URL))
		w.until("all are done", func() bool { return w.number("SELECT count(*) FROM effects WHERE state = 2") == n })
		b.ReportMetric(n/time.Since(began).Seconds(), "effects/s")
		stop()
	}
}

// BenchmarkOneDeadOfTen tells how long nine destinations take while the tenth is well,
// and while it takes connections and never answers; both in one run.
func BenchmarkOneDeadOfTen(b *testing.B) {
	const each = 1500
	hung, err := net.Listen("tcp", "127.0.0.1:0")
	must(b, err)
	b.Cleanup(func() { _ = hung.Close() })
	var list strings.Builder
	var names []string
	for i := range 9 {
		s := httptest.NewServer(http.HandlerFunc(ok))
		b.Cleanup(s.Close)
		name := fmt.Sprintf("good-%d", i)
		names = append(names, name)
		list.WriteString(declaration(name, s.URL))
	}
	tenth := httptest.NewServer(http.HandlerFunc(ok))
	b.Cleanup(tenth.Close)
	measure := func(target string) float64 {
		w := newWorld(b)
		for _, name := range append([]string{"tenth"}, names...) {
			w.add(name, each)
		}
		w.exec("ANALYZE effects")
		began := time.Now()
		_, stop := w.start("a", defaults(), list.String()+declaration("tenth", target))
		w.until("nine are done", func() bool {
			return w.number("SELECT count(*) FROM effects WHERE state = 2 AND effect <> 'tenth'") == 9*each
		})
		rate := 9 * each / time.Since(began).Seconds()
		stop()
		return rate
	}
	// Rounds take turns in what comes first, and the middle one counts: the machine's own
	// noise is greater than what is measured.
	const rounds = 5
	for b.Loop() {
		var well, dead, ratios []float64
		for i := range rounds {
			var with, without float64
			if i%2 == 0 {
				with, without = measure(tenth.URL), measure("http://"+hung.Addr().String())
			} else {
				without, with = measure("http://"+hung.Addr().String()), measure(tenth.URL)
			}
			well, dead, ratios = append(well, with), append(dead, without), append(ratios, without/with)
		}
		b.Logf("ratios %.2f", ratios)
		b.ReportMetric(middle(well), "effects/s-all-well")
		b.ReportMetric(middle(dead), "effects/s-one-dead")
		b.ReportMetric(middle(ratios), "ratio")
	}
}

func middle(values []float64) float64 { return slices.Sorted(slices.Values(values))[len(values)/2] }
