// Package certificate fetches the signing certificates that webhooks name, and keeps
// them. Whose host an address may have is the provider's rule (webhook.Certified); that
// the fetching cannot be turned against the receiver is this package's.
package certificate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"sluice/pkg/webhook"
)

// ErrUnavailable means that the certificate is not there now; a later try may find it.
var ErrUnavailable = errors.New("the signing certificate is not there yet")

const (
	// patience is how long those who ask for a certificate wait for it together,
	// counted from the first; the fetch itself goes on, for those who ask again.
	patience = time.Second
	// fetchTimeout bounds one fetch, name look-up and all.
	fetchTimeout = 5 * time.Second
	// keepFound and keepFailed are how long a fetch stands, whatever came of it.
	keepFound  = 24 * time.Hour
	keepFailed = 5 * time.Second
	// maxFetches and maxWaiting bound what strangers can set in motion by naming
	// new addresses: requests out, and requests in that wait.
	maxFetches = 4
	maxWaiting = 256
	// maxKept bounds the certificates in memory; a provider has a handful.
	maxKept = 64
	// quiet is the least time between two log lines about failures.
	quiet = 10 * time.Second
)

// Store fetches certificates and keeps them. Nobody waits in it longer than a second,
// whatever a host does. It is safe for concurrent use.
type Store struct {
	roots  *x509.CertPool
	client *http.Client
	log    *slog.Logger
	ctx    context.Context // ends all fetches
	stop   context.CancelFunc
	done   sync.WaitGroup

	mu       sync.Mutex
	kept     map[string]*fetch
	fetching int
	waiting  int
	told     time.Time // when a failure was last logged
}

// fetch is one address's certificate, on its way, here, or failed.
type fetch struct {
	begun time.Time
	used  time.Time
	ended chan struct{}
	// Set when ended is closed:
	certificate webhook.Certificate
	err         error
	until       time.Time
}

// New makes a store. roots are the authorities it trusts, for the hosts and for the
// signers.
func New(roots *x509.CertPool, log *slog.Logger) *Store {
	s := &Store{roots: roots, log: log, kept: map[string]*fetch{}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.client = &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    fetchTimeout,
			MaxResponseHeaderBytes: 16 << 10,
			DisableKeepAlives:      true, // one fetch a day
			ForceAttemptHTTP2:      true,
		},
		// A redirect leads to a host that nobody checked.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return s
}

// Close ends all fetches.
func (s *Store) Close() {
	s.stop()
	s.done.Wait()
}

// Get is the certificate at an https address, with the store's roots; it is not
// verified. An error is ErrUnavailable, wrapped in what was found out.
func (s *Store) Get(address string) (webhook.Certificate, error) {
	now := time.Now()
	s.mu.Lock()
	f := s.kept[address]
	if f == nil || f.over(now) {
		// One that was found before is no stranger's word: it is asked for again, however
		// many addresses are being tried.
		if s.fetching >= maxFetches && (f == nil || f.err != nil) {
			s.mu.Unlock()
			return webhook.Certificate{}, fmt.Errorf("%w: %d others are being fetched", ErrUnavailable, maxFetches)
		}
		f = s.begin(address, now)
	}
	f.used = now
	wait := f.begun.Add(patience).Sub(now)
	mayWait := wait > 0 && s.waiting < maxWaiting
	if mayWait {
		s.waiting++
	}
	s.mu.Unlock()
	if mayWait {
		await(f.ended, wait)
		s.mu.Lock()
		s.waiting--
		s.mu.Unlock()
	}
	select {
	case <-f.ended:
		return f.certificate, f.err
	default:
		return webhook.Certificate{}, fmt.Errorf("%w: its host has not answered", ErrUnavailable)
	}
}

func await(ended <-chan struct{}, atMost time.Duration) {
	select { // the usual case needs no timer
	case <-ended:
		return
	default:
	}
	t := time.NewTimer(atMost)
	defer t.Stop()
	select {
	case <-ended:
	case <-t.C:
	}
}

// over says whether a fetch ended and does not stand any more.
func (f *fetch) over(now time.Time) bool {
	select {
	case <-f.ended:
		return !now.Before(f.until)
	default:
		return false
	}
}

// begin starts a fetch. The caller holds the lock.
func (s *Store) begin(address string, now time.Time) *fetch {
	f := &fetch{begun: now, used: now, ended: make(chan struct{})}
	if _, again := s.kept[address]; !again && len(s.kept) >= maxKept {
		s.drop()
	}
	s.kept[address] = f
	s.fetching++
	s.done.Go(func() {
		chain, err := s.load(address)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.fetching--
		f.end(chain, s.roots, err, time.Now())
		if now := time.Now(); err != nil && s.ctx.Err() == nil && now.Sub(s.told) >= quiet {
			s.told = now
			s.log.Warn("a signing certificate cannot be fetched; the webhooks that name it get 503", "error", err)
		}
	})
	return f
}

// end makes a fetch's outcome known, for as long as it stands: not beyond the
// certificate's own end, and long enough that no address is fetched all the time.
func (f *fetch) end(chain []*x509.Certificate, roots *x509.CertPool, err error, now time.Time) {
	stands := keepFailed
	if err != nil {
		f.err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	} else {
		f.certificate = webhook.Certificate{Chain: chain, Roots: roots}
		stands = max(stands, min(keepFound, chain[0].NotAfter.Sub(now)))
	}
	f.until = now.Add(stands)
	close(f.ended)
}

// drop makes room: a failure, else what was not asked for the longest. Fetches on
// their way stay.
func (s *Store) drop() {
	var victim string
	var worst *fetch
	for address, f := range s.kept {
		select {
		case <-f.ended:
		default:
			continue
		}
		if worst == nil || f.err != nil && worst.err == nil || (f.err != nil) == (worst.err != nil) && f.used.Before(worst.used) {
			victim, worst = address, f
		}
	}
	delete(s.kept, victim)
}

// load fetches a chain. Its errors name the host at most: the rest of the address is
// the sender's text.
func (s *Store) load(address string) ([]*x509.Certificate, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, errors.New("its address is no https address")
	}
	ctx, cancel := context.WithTimeout(s.ctx, fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s for it: the address cannot be used", u.Host)
	}
	res, err := s.client.Do(req)
	if err != nil {
		var inner *url.Error // says the whole address
		if errors.As(err, &inner) {
			err = inner.Err
		}
		return nil, fmt.Errorf("ask %s for it: %w", u.Host, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask %s for it: answered with status %d", u.Host, res.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, maxText+1))
	if err != nil {
		return nil, fmt.Errorf("read it from %s: %w", u.Host, err)
	}
	chain, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("what %s has there: %w", u.Host, err)
	}
	return chain, nil
}
