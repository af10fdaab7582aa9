package certificate

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func file(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// host is a TLS server that the store trusts.
func host(t *testing.T, h http.HandlerFunc) (*Store, string) {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	s := New(roots, slog.New(slog.DiscardHandler))
	t.Cleanup(s.Close)
	return s, srv.URL
}

func TestACertificateIsFetchedOnceAndComesWithItsRoots(t *testing.T) {
	var asked atomic.Int32
	s, url := host(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_, _ = w.Write(file(t, strings.TrimPrefix(r.URL.Path, "/")))
	})
	for _, name := range []string{"sns.pem", "paypal.pem"} {
		asked.Store(0)
		for range 3 {
			c, err := s.Get(url + "/" + name)
			if err != nil || len(c.Chain) != bytes.Count(file(t, name), []byte("BEGIN CERT")) || c.Roots != s.roots {
				t.Fatalf("%s: %+v, %v", name, c, err)
			}
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("%s was asked for %d times", name, n)
		}
	}
}

func TestWhatIsNoCertificateIsNotTakenForOne(t *testing.T) {
	elsewhere := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(file(t, "sns.pem")) }))
	elsewhere.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	elsewhere.StartTLS()
	defer elsewhere.Close()
	plain := httptest.NewServer(elsewhere.Config.Handler)
	defer plain.Close()
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")})
	broken := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})
	s, url := host(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, "/good", http.StatusFound)
		case "/away":
			http.Redirect(w, r, elsewhere.URL, http.StatusMovedPermanently)
		case "/gone":
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write(file(t, "sns.pem"))
		case "/large":
			_, _ = w.Write(append(file(t, "sns.pem"), bytes.Repeat([]byte("\n"), maxText)...))
		case "/endless":
			for {
				if _, err := w.Write(bytes.Repeat([]byte("x"), 1<<16)); err != nil {
					return
				}
			}
		case "/many":
			_, _ = w.Write(bytes.Repeat(file(t, "sns.pem"), maxChain+1))
		case "/html":
			_, _ = io.WriteString(w, "<html>")
		case "/key":
			_, _ = w.Write(key)
		case "/broken":
			_, _ = w.Write(broken)
		case "/good":
			_, _ = w.Write(append(key, file(t, "sns.pem")...))
		}
	})
	bare := strings.TrimPrefix(url, "https://")
	for address, says := range map[string]string{
		url + "/redirect": "status 302", url + "/away": "status 301", url + "/gone": "status 404", url + "/large": "larger than", url + "/endless": "larger than",
		url + "/many": "more than 8", url + "/html": "no PEM", url + "/nothing": "no PEM", url + "/key": "no PEM", url + "/broken": "certificate 1",
		elsewhere.URL + "/": "certificate", plain.URL + "/": "no https", "http://" + bare + "/good": "no https", "HTTPS://user:pw@" + bare + "/good": "no https",
		"file:///etc/passwd": "no https", "//" + bare + "/good": "no https", "": "no https", "https:": "no https", "https://" + strings.TrimPrefix(plain.URL, "http://") + "/good": "ask 127.0.0.1", "https://%zz": "no https", "https://" + bare + "\n/good": "no https",
	} {
		// Another host's own certificate is no authority here.
		if address == elsewhere.URL+"/" {
			s.client.Transport.(*http.Transport).TLSClientConfig.RootCAs = x509.NewCertPool()
		}
		c, err := s.Get(address)
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), says) || len(c.Chain) != 0 {
			t.Errorf("%q: %v, %d certificates; want %q", address, err, len(c.Chain), says)
		}
		if err != nil && strings.Contains(err.Error(), "/good") {
			t.Errorf("%q: the error repeats the sender's text: %v", address, err)
		}
		s.client.Transport.(*http.Transport).TLSClientConfig.RootCAs = s.roots
	}
	if c, err := s.Get(url + "/good"); err != nil || len(c.Chain) != 1 {
		t.Errorf("the good one: %v", err)
	}
}

// transport answers in place of a network, so that time is the test's own.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answers(text []byte) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(text))}, nil
}

func hangs(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// bubble is a store in virtual time; its clock begins at the year 2000.
func bubble(t *testing.T, log io.Writer, f transport) *Store {
	s := New(nil, slog.New(slog.NewTextHandler(log, nil)))
	s.client.Transport = f
	t.Cleanup(s.Close)
	return s
}

func TestAFoundCertificateStandsForADayAndAFailureForSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, down := 0, true
		s := bubble(t, io.Discard, func(*http.Request) (*http.Response, error) {
			if asked++; down {
				return nil, errors.New("connection refused")
			}
			return answers(file(t, "sns.pem"))
		})
		get := func(what string, times int, found bool) {
			t.Helper()
			if c, err := s.Get("https://host.example/a.pem"); (err == nil) != found || (len(c.Chain) == 1) != found || asked != times {
				t.Errorf("%s: %v, asked %d times, want %d", what, err, asked, times)
			}
		}
		get("down", 1, false)
		time.Sleep(keepFailed - time.Millisecond)
		down = false
		get("up, but the failure stands", 1, false)
		time.Sleep(time.Millisecond)
		get("up", 2, true)
		time.Sleep(keepFound - time.Millisecond)
		down = true
		get("just within a day", 2, true)
		time.Sleep(time.Millisecond)
		get("after a day", 3, false)
	})
}

func TestACertificateStandsNoLongerThanItSays(t *testing.T) {
	chain, err := Parse(file(t, "sns.pem"))
	if err != nil {
		t.Fatal(err)
	}
	for left, want := range map[time.Duration]time.Duration{time.Hour: time.Hour, 48 * time.Hour: keepFound, time.Second: keepFailed, -time.Hour: keepFailed} {
		f, now := &fetch{ended: make(chan struct{})}, chain[0].NotAfter.Add(-left)
		f.end(chain, nil, nil, now)
		if got := f.until.Sub(now); got != want {
			t.Errorf("with %v left it stands for %v, want %v", left, got, want)
		}
	}
}

func TestAHangingHostHoldsNobodyForMoreThanASecondAndIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		s := bubble(t, io.Discard, func(r *http.Request) (*http.Response, error) {
			asked.Add(1)
			return hangs(r)
		})
		begin := time.Now()
		for i := range 3000 {
			go func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				came := time.Now()
				_, err := s.Get("https://host.example/a.pem")
				if !errors.Is(err, ErrUnavailable) {
					t.Errorf("%v", err)
				}
				if waited := time.Since(came); waited > max(0, begin.Add(patience).Sub(came)) {
					t.Errorf("who came after %v waited %v", came.Sub(begin), waited)
				}
			}()
		}
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if n := asked.Load(); n != 1 {
			t.Errorf("asked %d times", n)
		}
		time.Sleep(fetchTimeout)
		if _, err := s.Get("https://host.example/a.pem"); !errors.Is(err, ErrUnavailable) || asked.Load() != 1 {
			t.Errorf("a fetch that timed out does not stand: %v", err)
		}
		time.Sleep(keepFailed)
		if _, err := s.Get("https://host.example/a.pem"); !errors.Is(err, ErrUnavailable) || asked.Load() != 2 {
			t.Errorf("a fetch that timed out stands for ever: %v", err)
		}
	})
}

func TestASlowHostIsWaitedForAndItsAnswerIsThereForTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := bubble(t, io.Discard, func(r *http.Request) (*http.Response, error) {
			time.Sleep(map[string]time.Duration{"/soon": patience / 2, "/late": 2 * patience}[r.URL.Path])
			return answers(file(t, "sns.pem"))
		})
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if _, err := s.Get("https://host.example/soon"); err != nil {
					t.Error(err)
				}
				if _, err := s.Get("https://host.example/late"); err == nil {
					t.Error("waited for two seconds")
				}
			})
		}
		all.Wait()
		time.Sleep(2 * patience)
		if _, err := s.Get("https://host.example/late"); err != nil {
			t.Error(err)
		}
	})
}

// Strangers can name addresses; what that sets in motion is bounded.
func TestWhatStrangersCanSetInMotionIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		var asked, hung atomic.Int32
		s := bubble(t, &log, func(r *http.Request) (*http.Response, error) {
			asked.Add(1)
			if strings.HasPrefix(r.URL.Path, "/hang") {
				hung.Add(1)
				return hangs(r)
			}
			if r.URL.Path == "/ours" {
				return answers(file(t, "sns.pem"))
			}
			return nil, errors.New("no such file")
		})
		if _, err := s.Get("https://host.example/ours"); err != nil {
			t.Fatal(err)
		}
		for i := range 10 * maxKept {
			_, _ = s.Get(fmt.Sprint("https://host.example/", i))
		}
		if len(s.kept) > maxKept {
			t.Errorf("%d are kept", len(s.kept))
		}
		before := asked.Load()
		if _, err := s.Get("https://host.example/ours"); err != nil || asked.Load() != before {
			t.Errorf("failures pushed the good one out: %v", err)
		}
		if n := strings.Count(log.String(), "\n"); n != 1 {
			t.Errorf("%d log lines about one moment", n)
		}
		begin := time.Now()
		var all sync.WaitGroup
		for i := range 10 * maxWaiting {
			all.Go(func() { _, _ = s.Get(fmt.Sprint("https://host.example/hang", i%(2*maxFetches))) })
		}
		synctest.Wait()
		if hung.Load() != maxFetches || s.waiting != maxWaiting {
			t.Errorf("%d fetches, %d wait", hung.Load(), s.waiting)
		}
		if _, err := s.Get("https://host.example/ours"); err != nil || time.Since(begin) != 0 {
			t.Errorf("the good one is held up: %v", err)
		}
		all.Wait()
	})
}

// Otherwise strangers who keep all fetches busy would hold up every webhook as soon as
// the day of the provider's certificate is over.
func TestACertificateThatWasFoundIsFetchedAgainWhateverStrangersName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := bubble(t, io.Discard, func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/ours" {
				return answers(file(t, "sns.pem"))
			}
			return hangs(r)
		})
		if _, err := s.Get("https://host.example/ours"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(keepFound)
		for i := range maxFetches {
			_, _ = s.Get(fmt.Sprint("https://host.example/", i))
		}
		if c, err := s.Get("https://host.example/ours"); err != nil || len(c.Chain) != 1 {
			t.Errorf("the good one: %v", err)
		}
	})
}

func TestAStopEndsFetches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := bubble(t, io.Discard, hangs)
		go func() { _, _ = s.Get("https://host.example/") }()
		synctest.Wait()
		begin := time.Now()
		s.Close()
		if took := time.Since(begin); took != 0 {
			t.Errorf("it took %v", took)
		}
	})
}

func TestRootsAreTheFilesOrTheSystems(t *testing.T) {
	read := func(string) ([]byte, error) { return file(t, "sns.pem"), nil }
	if pool, err := Roots("f", read); err != nil || pool == nil {
		t.Errorf("a file: %v", err)
	}
	if pool, err := Roots("", nil); err != nil || pool == nil {
		t.Errorf("the system's: %v", err)
	}
	if _, err := Roots("f", func(string) ([]byte, error) { return []byte("hello"), nil }); err == nil || !strings.Contains(err.Error(), "f has no PEM") {
		t.Errorf("no PEM: %v", err)
	}
	if _, err := Roots("f", func(string) ([]byte, error) { return nil, fs.ErrNotExist }); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(file(f, "sns.pem"))
	f.Add(file(f, "paypal.pem"))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if chain, err := Parse(text); (err == nil) != (len(chain) > 0) || len(chain) > maxChain {
			t.Errorf("%d certificates, %v", len(chain), err)
		}
	})
}
