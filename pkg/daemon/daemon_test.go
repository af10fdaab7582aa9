package daemon

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var quiet = slog.New(slog.DiscardHandler)

// fake is a role whose work, drain and readiness the test decides.
type fake struct {
	drain time.Duration
	fail  error
	ready error
}

func (f fake) Run(ctx context.Context) error {
	if f.fail != nil {
		return f.fail
	}
	<-ctx.Done()
	time.Sleep(f.drain) // virtual time
	return nil
}

func (f fake) Ready() error { return f.ready }

// noted has something to say.
type noted struct{ fake }

func (noted) Notes() []string { return []string{"one thing", "another"} }

func role(name string, f fake) Role {
	return Role{Name: name, Start: func(context.Context) (Worker, error) { return f, nil }}
}

// O48: the exit is clean after a clean drain, and bounded if it is not.
func TestADrainWithinTheGracePeriodIsClean(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := Run(ctx, Config{Grace: 25 * time.Second}, quiet, prometheus.NewRegistry(), role("ingress", fake{drain: 24 * time.Second}))
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestADrainThatHangsEndsWithTheGracePeriodAndIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		err := Run(ctx, Config{Grace: 25 * time.Second}, quiet, prometheus.NewRegistry(),
			role("ingress", fake{drain: 26 * time.Second}), role("relay", fake{}))
		if !errors.Is(err, ErrGrace) || !strings.HasSuffix(err.Error(), ": ingress") {
			t.Fatalf("got %v", err)
		}
		if took := time.Since(begin); took != 85*time.Second {
			t.Fatalf("took %v", took)
		}
		time.Sleep(time.Minute)
	})
}

func TestOneFailingRoleStopsTheOthersAndIsNamed(t *testing.T) {
	boom := errors.New("boom")
	err := Run(t.Context(), Config{Grace: time.Second}, quiet, prometheus.NewRegistry(), role("relay", fake{fail: boom}), role("ingress", fake{}))
	if !errors.Is(err, boom) || !strings.HasPrefix(err.Error(), "relay: ") {
		t.Fatalf("got %v", err)
	}
}

func TestStoppingARoleThatStillWaitsIsClean(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		waiting := Role{Name: "ingress", Start: func(ctx context.Context) (Worker, error) {
			return nil, Wait(ctx, quiet, "Kafka", func(context.Context) error { return errors.New("refused") })
		}}
		if err := Run(ctx, Config{Grace: time.Second}, quiet, prometheus.NewRegistry(), waiting); err != nil {
			t.Fatal(err)
		}
	})
}

func TestWaitTriesUntilItAnswersAndSaysForWhat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, nil))
		tries := 0
		err := Wait(t.Context(), log, "Kafka", func(context.Context) error {
			if tries++; tries < 7 {
				return errors.New("refused")
			}
			return nil
		})
		if err != nil || tries != 7 {
			t.Fatalf("err %v after %d tries", err, tries)
		}
		if n := strings.Count(out.String(), "waiting for Kafka"); n != 2 {
			t.Fatalf("said it %d times, want 2:\n%s", n, out.String())
		}
	})
}

func TestReadyzNamesEachRoleAndAdminServesTheRest(t *testing.T) {
	h := &health{roles: []roleHealth{{name: "ingress"}, {name: "relay"}}}
	srv := newAdmin(h, prometheus.NewRegistry())
	get := func(path string) (int, string) {
		rec := httptest.NewRecorder()
		srv.Handler.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
		body, _ := io.ReadAll(rec.Body)
		return rec.Code, string(body)
	}
	check := func(wantCode int, want string) {
		t.Helper()
		if code, body := get("/readyz"); code != wantCode || body != want {
			t.Fatalf("readyz: %d %q, want %d %q", code, body, wantCode, want)
		}
	}
	check(503, "ingress: starting\nrelay: starting\n")
	h.started(0, fake{})
	h.started(1, fake{ready: errors.New("no broker")})
	check(503, "ingress: ready\nrelay: no broker\n")
	h.started(1, fake{})
	check(200, "ingress: ready\nrelay: ready\n")
	h.started(1, noted{})
	check(200, "ingress: ready\nrelay: ready\nrelay: one thing\nrelay: another\n")
	h.started(1, fake{})
	h.stop()
	check(503, "ingress: stopping\nrelay: stopping\n")
	for _, path := range []string{"/livez", "/metrics", "/docs/", "/docs/topics.html", "/debug/pprof/"} {
		if code, _ := get(path); code != 200 {
			t.Errorf("%s: %d", path, code)
		}
	}
}

// O48: SIGTERM twice.
func TestTheFirstSignalDrainsTheSecondLeaves(t *testing.T) {
	ch := make(chan os.Signal)
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan int, 1)
	go watch(ch, nil, quiet, cancel, func(code int) { left <- code })
	ch <- syscall.SIGTERM
	<-ctx.Done()
	ch <- syscall.SIGTERM
	if code := <-left; code != 1 {
		t.Fatalf("left with %d", code)
	}
}

func TestATakenAdminAddressSaysWhatToDo(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	err = Run(t.Context(), Config{Admin: l.Addr().String(), Grace: time.Second}, quiet, prometheus.NewRegistry(), role("relay", fake{}))
	if err == nil || !strings.Contains(err.Error(), "its own SLUICE_ADMIN_ADDRESS") || !strings.Contains(err.Error(), "sluice run") {
		t.Fatalf("got %v", err)
	}
}

func TestAnUnknownLogFormatIsRefused(t *testing.T) {
	if _, err := NewLog(LogConfig{Format: "xml"}, io.Discard); err == nil || !strings.Contains(err.Error(), "SLUICE_LOG_FORMAT") {
		t.Fatalf("got %v", err)
	}
}
