package daemon

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/pprof"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"sluice/pkg/contract/pages"
)

var (
	errStarting = errors.New("starting")
	errStopping = errors.New("stopping")
)

// health is what /readyz tells.
type health struct {
	mu       sync.Mutex
	stopping bool
	roles    []roleHealth
}

type roleHealth struct {
	name   string
	worker Worker
}

// noting is a worker that has more to say than whether it is ready: what people should
// look at, a line each. It must answer at once.
type noting interface{ Notes() []string }

func (h *health) started(i int, w Worker) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.roles[i].worker = w
}

func (h *health) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopping = true
}

// report says how each role is, one line each, and whether all are ready.
func (h *health) report() (text string, ready bool) {
	h.mu.Lock()
	stopping, roles := h.stopping, append([]roleHealth(nil), h.roles...)
	h.mu.Unlock()
	var b strings.Builder
	ready = true
	for _, r := range roles {
		err := errStarting
		switch {
		case stopping:
			err = errStopping
		case r.worker != nil:
			err = r.worker.Ready()
		}
		if err != nil {
			ready = false
			fmt.Fprintf(&b, "%s: %v\n", r.name, err)
		} else {
			fmt.Fprintf(&b, "%s: ready\n", r.name)
		}
		if w, ok := r.worker.(noting); ok {
			for _, note := range w.Notes() {
				fmt.Fprintf(&b, "%s: %s\n", r.name, note)
			}
		}
	}
	return b.String(), ready
}

func newAdmin(h *health, reg *prometheus.Registry) *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("alive\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		text, ready := h.report()
		if !ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte(text))
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	mux.Handle("/docs/", http.StripPrefix("/docs", pages.Handler()))
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
}
