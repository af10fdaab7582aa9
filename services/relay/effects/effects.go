// Package effects makes the calls that must happen outside, once, when an order
// changes. It belongs to the relay role.
//
// Its path: the dispatcher (dispatch.go) claims due effects under a lease, as many as
// each destination has room for; each is called (send.go) past the guard (guard.go),
// without any lock in the database; what the answer means is decided (decide.go), its
// destination's circuit learns of it (circuit.go), and it is written down (finish.go)
// under the attempt's number, which is what fences a dispatcher that was frozen.
package effects

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/pkg/daemon"
	"sluice/pkg/effect"
	"sluice/pkg/postgres"
)

// Config is the dispatcher's part of the configuration.
type Config struct {
	// Concurrency is how many calls are under way at most. Each destination gets its
	// part of it, so that slow ones take nothing from the others.
	Concurrency int `env:"SLUICE_RELAY_EFFECTS_CONCURRENCY" envDefault:"256" help:"most calls at a time"`
	// PerDestination is how many calls of one destination are under way at most.
	PerDestination int `env:"SLUICE_RELAY_EFFECTS_PER_DESTINATION" envDefault:"32" help:"most calls to one destination at a time"`
	// Poll is how often it looks for effects that are due.
	Poll time.Duration `env:"SLUICE_RELAY_EFFECTS_POLL_INTERVAL" envDefault:"100ms" help:"how often it looks for effects that are due"`
	// LeaseMargin is how much longer than its timeout an attempt is this dispatcher's.
	LeaseMargin time.Duration `env:"SLUICE_RELAY_EFFECTS_LEASE_MARGIN" envDefault:"10s" help:"how long after its timeout an attempt of a dead relay is another's"`
	// BackoffBase and BackoffMax bound how long a retry waits: a random part of the
	// base, doubled with each attempt.
	BackoffBase time.Duration `env:"SLUICE_RELAY_EFFECTS_BACKOFF_BASE" envDefault:"30s" help:"how long the first retry waits at most"`
	BackoffMax  time.Duration `env:"SLUICE_RELAY_EFFECTS_BACKOFF_MAX" envDefault:"6h" help:"how long any retry waits at most"`
	// RetryAfterMax bounds what a receiver may ask for with Retry-After.
	RetryAfterMax time.Duration `env:"SLUICE_RELAY_EFFECTS_RETRY_AFTER_MAX" envDefault:"24h" help:"the longest Retry-After that is obeyed"`
	// BreakAfter is how many failures in a row open a destination's circuit; it stays
	// open for BreakFor, and doubly long each time a try fails, up to BreakMax.
	BreakAfter int           `env:"SLUICE_RELAY_EFFECTS_BREAK_AFTER" envDefault:"5" help:"failures in a row that stop the calls to a destination"`
	BreakFor   time.Duration `env:"SLUICE_RELAY_EFFECTS_BREAK_FOR" envDefault:"10s" help:"for how long at first"`
	BreakMax   time.Duration `env:"SLUICE_RELAY_EFFECTS_BREAK_MAX" envDefault:"2m" help:"for how long at most"`
	// Drain is how long a stop waits for calls that are under way. After it they
	// are cut, which counts as an attempt without an answer.
	Drain time.Duration `env:"SLUICE_RELAY_EFFECTS_DRAIN_TIMEOUT" envDefault:"12s" help:"how long a stop waits for calls under way"`
	// Proxy is the address of an HTTP proxy for all calls. It looks names up, so it
	// decides what may be reached. Empty: none, whatever HTTP_PROXY says.
	Proxy string `env:"SLUICE_RELAY_EFFECTS_PROXY" help:"HTTP proxy for all calls, which then guards what is reached" json:"-"`
}

// Check says everything that is wrong with the settings.
func (c Config) Check() error {
	var problems []error
	problem := func(name, format string, args ...any) {
		problems = append(problems, fmt.Errorf("SLUICE_RELAY_EFFECTS_"+name+" "+format, args...))
	}
	if c.Concurrency < 1 || c.Concurrency > 4096 {
		problem("CONCURRENCY", "is %d; use 1 to 4096", c.Concurrency)
	}
	if c.PerDestination < 1 || c.PerDestination > 256 {
		problem("PER_DESTINATION", "is %d; use 1 to 256", c.PerDestination)
	}
	if c.BreakAfter < 1 {
		problem("BREAK_AFTER", "is %d; it must be at least 1", c.BreakAfter)
	}
	for _, d := range []struct {
		name string
		is   time.Duration
	}{{"POLL_INTERVAL", c.Poll}, {"LEASE_MARGIN", c.LeaseMargin}, {"BACKOFF_BASE", c.BackoffBase},
		{"BREAK_FOR", c.BreakFor}, {"DRAIN_TIMEOUT", c.Drain}} {
		if d.is <= 0 {
			problem(d.name, "must be positive")
		}
	}
	if c.RetryAfterMax < 0 {
		problem("RETRY_AFTER_MAX", "is negative")
	}
	if c.BackoffMax < c.BackoffBase {
		problem("BACKOFF_MAX", "must not be below SLUICE_RELAY_EFFECTS_BACKOFF_BASE")
	}
	if c.BreakMax < c.BreakFor {
		problem("BREAK_MAX", "must not be below SLUICE_RELAY_EFFECTS_BREAK_FOR")
	}
	if _, err := c.proxy(); err != nil {
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// proxy never repeats the setting: it may hold a password.
func (c Config) proxy() (*url.URL, error) {
	if c.Proxy == "" {
		return nil, nil
	}
	u, err := url.Parse(c.Proxy)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("SLUICE_RELAY_EFFECTS_PROXY is no address of a proxy: write http://host:port")
	}
	return u, nil
}

// Store is where effects lie; *postgres.Store is one.
type Store interface {
	ClaimEffects(ctx context.Context, now time.Time, owner string, wanted ...postgres.Wanted) ([]postgres.Effect, error)
	FinishEffects(ctx context.Context, now time.Time, attempts ...postgres.Attempt) (stands []bool, err error)
}

// Deps are what a dispatcher works with.
type Deps struct {
	Log      *slog.Logger
	Registry prometheus.Registerer
	// Owner names this dispatcher among all; unique over restarts.
	Owner string
	Store Store
	// Effects are the declared ones, with their secrets.
	Effects effect.Set
	Now     func() time.Time
}

// Dispatcher is one dispatcher. Several share the effects; each keeps to the
// destinations' limits by itself.
type Dispatcher struct {
	cfg          Config
	log          *slog.Logger
	metrics      *metrics
	store        Store
	owner        string
	now          func() time.Time
	random       func(time.Duration) time.Duration
	waits        waits
	destinations []*destination
	lines        map[string]*line
	ended        chan ended
	written      chan []*line
	trouble      atomic.Pointer[error]
}

// destination is one host and port, with all effects that go there.
type destination struct {
	name    string
	circuit circuit
	limit   int
	lines   []*line
	// of the dispatcher's own goroutine:
	underway int  // claimed and not written down
	more     bool // the last claim got all that it asked for
}

// line is one effect and how it is called.
type line struct {
	declaration effect.Declaration
	destination *destination
	caller      interface {
		call(context.Context, postgres.Effect, time.Time) answer
		close()
	}
}

// New checks the configuration and reports all that is wrong with it.
func New(cfg Config, deps Deps) (*Dispatcher, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	proxy, _ := cfg.proxy()
	return newDispatcher(cfg, deps, way{proxy: proxy})
}

func newDispatcher(cfg Config, deps Deps, w way) (*Dispatcher, error) {
	d := &Dispatcher{cfg: cfg, log: deps.Log, metrics: newMetrics(deps.Registry), store: deps.Store, owner: deps.Owner, now: deps.Now,
		random: rand.N[time.Duration],
		waits:  waits{base: cfg.BackoffBase, longest: cfg.BackoffMax, retryAfter: cfg.RetryAfterMax},
		lines:  map[string]*line{}, ended: make(chan ended, cfg.Concurrency)}
	byName := map[string]*destination{}
	var problems []error
	for _, e := range deps.Effects.All() {
		c, err := newCaller(e, w)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		name := nameOf(e.URL)
		to := byName[name]
		if to == nil {
			to = &destination{name: name, circuit: circuit{after: cfg.BreakAfter, base: cfg.BreakFor, longest: cfg.BreakMax}}
			byName[name], d.destinations = to, append(d.destinations, to)
		}
		l := &line{declaration: e, destination: to, caller: c}
		to.lines = append(to.lines, l)
		d.lines[e.Name] = l
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	total := 0
	for _, to := range d.destinations {
		to.limit = min(cfg.PerDestination, max(1, cfg.Concurrency/len(d.destinations)))
		total += to.limit
	}
	d.written = make(chan []*line, total+1) // no finisher ever waits for the dispatcher
	d.setTrouble(errors.New("effects not claimed yet"))
	return d, nil
}

// nameOf is a destination's name: host:port.
func nameOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// Ready is nil while effects can be claimed. Destinations that do not answer are no
// reason: others may.
func (d *Dispatcher) Ready() error {
	if err := d.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

func (d *Dispatcher) setTrouble(err error) {
	if err == nil {
		d.trouble.Store(nil)
		return
	}
	d.trouble.Store(&err)
}

var _ daemon.Worker = (*Dispatcher)(nil)
