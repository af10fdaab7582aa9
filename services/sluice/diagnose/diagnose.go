// Package diagnose says why a recorded request does not verify. It is pure. It
// undoes the usual mistakes one by one, and two at a time, and asks the provider's
// own Verify each time: what then verifies is proof of the mistake. It knows no
// provider by name, so every provider there is, or will be, is covered.
package diagnose

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"sluice/pkg/endpoint"
	"sluice/pkg/event"
	"sluice/pkg/order"
	"sluice/pkg/webhook"
	"sluice/services/sluice/recorded"
)

// Case is a recorded request and the endpoint it is checked against.
type Case struct {
	Request  recorded.Request
	Endpoint endpoint.Endpoint
	// Others are the deployment's other endpoints: it may have gone to the wrong one.
	Others []endpoint.Endpoint
	// Now is the clock, and Clock says whose it is ("the recorded Date header").
	Now   time.Time
	Clock string
	// OwnTime: nobody knows when the request came in, so the signature's own time is
	// taken for it, and how fresh it was is not judged.
	OwnTime bool
	// Remote is who sent it; the zero Addr if unknown.
	Remote netip.Addr
	// Certificate is what lies at the address the request names, for providers that
	// sign with one.
	Certificate webhook.Certificate
}

// Mistake names a kind of cause; a bounded set.
type Mistake string

// What can be wrong.
const (
	WrongSecret    Mistake = "wrong_secret"     // none of the endpoint's made it
	SecretForm     Mistake = "secret_form"      // right, but given in another form
	SecretKind     Mistake = "secret_kind"      // another kind of key of the provider's
	WrongEndpoint  Mistake = "wrong_endpoint"   // another endpoint's secret made it
	Rewritten      Mistake = "body_rewritten"   // parsed and written again
	LineEnds       Mistake = "body_line_ends"   // a line end or space more or less
	Charset        Mistake = "body_charset"     // read in another character set
	Truncated      Mistake = "body_truncated"   // shorter than its Content-Length
	Encoded        Mistake = "body_encoded"     // gzip or chunks left on
	HeaderMissing  Mistake = "header_missing"   // not there at all
	HeaderRenamed  Mistake = "header_renamed"   // there under another name
	HeaderRepeated Mistake = "header_repeated"  // there more than once
	HeaderForm     Mistake = "header_form"      // its value was changed on the way
	WrongURL       Mistake = "wrong_url"        // another URL was signed
	Clock          Mistake = "clock"            // right, at another time
	Address        Mistake = "address"          // from where the provider does not send
	Account        Mistake = "account"          // another account's
	Certificate    Mistake = "certificate"      // of the certificate it names
	Recording      Mistake = "recording"        // it did not keep every byte
	Empty          Mistake = "empty"            // a batch without items
	Malformed      Mistake = "header_malformed" // a header that the scheme cannot have sent
)

// Cause is one thing that is wrong, and what to do about it. Neither text holds a
// secret, a header's value or a part of the body.
type Cause struct {
	Mistake  Mistake
	Text, Do string
	// Proven: undone, the request verifies; or it was measured. Else it is likely.
	Proven bool
}

// Mark says how a step went.
type Mark uint8

// A step went well, went wrong, or only tells something.
const (
	Note Mark = iota
	Good
	Bad
)

// Step is one thing that was looked at.
type Step struct {
	Mark Mark
	Text string
}

// Diagnosis is what was found.
type Diagnosis struct {
	Verdict webhook.Verdict
	Steps   []Step
	// Causes are empty if it verified; the proven ones come first.
	Causes []Cause
}

// Verified says whether the request is authentic and fresh.
func (d Diagnosis) Verified() bool { return d.Verdict.Outcome == webhook.Valid }

// Diagnose checks the request and, if it does not verify, finds out why.
func Diagnose(c Case) Diagnosis {
	s := newSubject(c)
	var d Diagnosis
	asked := s.watch()
	d.Verdict = s.verify(c.Now)
	now, clock := c.Now, c.Clock
	if d.Verdict.Outcome == webhook.Stale && c.OwnTime {
		now, clock = d.Verdict.SignedAt, "the signature's own: the recording has no time, so how fresh it was is not judged"
		d.Verdict = s.verify(now)
	}
	d.describe(c, s, asked(), now, clock)
	if !d.Verified() {
		d.Causes = causes(c, s, d.Verdict, asked(), now)
	}
	return d
}

// subject is what Verify is given, as recorded or with a mistake undone.
type subject struct {
	endpoint endpoint.Endpoint
	method   string
	url      string
	query    string
	headers  []recorded.Header
	body     []byte
	remote   netip.Addr
	cert     webhook.Certificate
	asked    *[]string
}

func newSubject(c Case) subject {
	s := subject{endpoint: c.Endpoint, method: c.Request.Method, url: c.Endpoint.RequestURL(c.Request.Query()), query: c.Request.Query(),
		headers: c.Request.Headers, body: c.Request.Body, remote: c.Remote, cert: c.Certificate}
	if s.remoteUnknown() {
		s.fromAnywhere()
	}
	return s
}

// remoteUnknown: the recording does not say who sent it, and there is more to hold
// it to.
func (s subject) remoteUnknown() bool {
	return !s.remote.IsValid() && len(s.endpoint.Addresses) > 0 && len(s.endpoint.Secrets) > 0
}

// fromAnywhere leaves the sender's address out of it.
func (s *subject) fromAnywhere() {
	everybody := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	s.endpoint.Addresses, s.remote = nil, netip.IPv4Unspecified()
	if p, ok := s.endpoint.Provider.(webhook.Addressed); ok {
		s.endpoint.Provider = p.WithAddresses(everybody)
	}
}

// watch notes from now on which headers the provider asks for.
func (s *subject) watch() func() []string {
	var names []string
	s.asked = &names
	return func() []string { return names }
}

func (s subject) header(name string) (values []string) {
	if s.asked != nil && !slices.ContainsFunc(*s.asked, func(known string) bool { return strings.EqualFold(known, name) }) {
		*s.asked = append(*s.asked, name)
	}
	if name == webhook.QueryHeader {
		if s.query == "" {
			return nil
		}
		return []string{s.query}
	}
	for _, h := range s.headers {
		if strings.EqualFold(h.Name, name) {
			values = append(values, h.Value)
		}
	}
	return values
}

func (s subject) verify(now time.Time) webhook.Verdict {
	return s.endpoint.Verify(webhook.Request{Method: s.method, URL: s.url, Header: s.header, Body: s.body, Remote: s.remote, Certificate: s.cert}, now)
}

// right says whether the signature is right, whenever it was made.
func (s subject) right(now time.Time) (webhook.Verdict, bool) {
	s.asked = nil
	v := s.verify(now)
	return v, v.Outcome != webhook.Invalid
}

// describe says what was looked at, in the order of a receiver's work.
func (d *Diagnosis) describe(c Case, s subject, asked []string, now time.Time, clock string) {
	say := func(mark Mark, format string, args ...any) {
		d.Steps = append(d.Steps, Step{mark, fmt.Sprintf(format, args...)})
	}
	is := func(ok bool) Mark {
		if ok {
			return Good
		}
		return Bad
	}
	f := c.Endpoint.Provider.Profile()
	say(Note, "request: %s %s, %d headers, %d bytes of body", c.Request.Method, c.Request.Path(), len(c.Request.Headers), len(c.Request.Body))
	for _, n := range c.Request.Notes {
		say(Note, "recording: %s", n)
	}
	say(Note, "endpoint %s: %s; %s", c.Endpoint.Name, or(f.Title, c.Endpoint.Provider.Name()), or(f.Signature, "as declared"))
	if n, stated := contentLength(c.Request); stated {
		say(is(n == len(c.Request.Body)), "Content-Length is %d, the body has %d bytes", n, len(c.Request.Body))
	}
	for _, name := range asked {
		switch n := len(s.header(name)); {
		case name == webhook.QueryHeader:
			say(is(n > 0), "the address has a query: %s", yes(n > 0))
		case n == 0:
			mark := Note // a provider may ask for what need not be there
			if !d.Verified() {
				mark = Bad
			}
			say(mark, "header %s is not there", name)
		default:
			say(is(n == 1), "header %s is there%s", name, times(n))
		}
	}
	if !c.Remote.IsValid() && len(c.Endpoint.Addresses) > 0 {
		say(Note, "the sender's address is not in a recording; an endpoint that holds to addresses checks it (--from ADDRESS)")
	}
	if f.NeedsURL {
		if c.Endpoint.URL == "" {
			say(Bad, "the signature covers the public URL, and the endpoint has no url")
		} else {
			say(Note, "the signature covers the public URL; the endpoint's is %s", c.Endpoint.URL)
		}
	}
	switch v := d.Verdict; v.Outcome {
	case webhook.Invalid:
		say(Bad, "signature: %s", refusal(v.Reason, c.Endpoint))
	default:
		made := "it is right"
		if strings.HasPrefix(f.Signature, "none") {
			made = "the scheme has none: anybody could have sent this"
			if len(c.Endpoint.Addresses) > 0 {
				made = "the scheme has none; the sender's address is one of the endpoint's"
			}
		}
		if v.Secret != "" {
			made += ": made with " + v.Secret
			if n := len(c.Endpoint.Secrets); n > 1 {
				made += fmt.Sprintf(", one of %d secrets", n)
			}
		}
		say(Good, "signature: %s", made)
		if !v.SignedAt.IsZero() {
			say(is(v.Outcome == webhook.Valid), "time: signed %s, %s the clock%s", v.SignedAt.UTC().Format(time.RFC3339), off(now.Sub(v.SignedAt)), allowed(c.Endpoint))
			say(Note, "clock: %s (%s)", now.UTC().Format(time.RFC3339), clock)
		}
		d.read(c, s, say)
	}
	if d.Verified() && f.Leaves != "" {
		say(Note, "not covered by the signature: %s; %s", f.Leaves, f.Instead)
	}
}

// read says what becomes of an authentic body, by its kind and not its content.
func (d *Diagnosis) read(c Case, s subject, say func(Mark, string, ...any)) {
	bodies := [][]byte{s.body}
	if b, ok := s.endpoint.Provider.(webhook.Batched); ok {
		if split, err := b.Split(s.body); err == nil {
			bodies = split
			say(Note, "batch: %d events", len(split))
		}
	}
	s.asked = nil
	for i, body := range bodies {
		if i == 5 {
			say(Note, "and %d more", len(bodies)-i)
			return
		}
		r, err := c.Endpoint.Read(s.header, body)
		switch {
		case err != nil:
			say(Bad, "reading: it is authentic and unreadable, so it would be kept as a dead letter: %v", err)
		case r.Fact == order.KindNone:
			say(Good, "reading: an event %s that states nothing about an order", r.Type)
		case r.Trust == event.Hint:
			say(Good, "reading: an event %s that hints at %s, which counts only once the provider's API was asked", r.Type, r.Fact)
		default:
			say(Good, "reading: an event %s that states %s", r.Type, r.Fact)
		}
	}
}

// refusal says in words why Verify refused.
func refusal(reason webhook.Reason, e endpoint.Endpoint) string {
	switch reason {
	case webhook.ReasonMissing:
		return "a header that the scheme needs is missing"
	case webhook.ReasonMalformed:
		return "a header is not what the scheme sends"
	case webhook.ReasonMismatch:
		return notMade(e.Secrets, "it for this request")
	case webhook.ReasonEmpty:
		return "a batch without an item, so nothing is signed"
	case webhook.ReasonAddress:
		return "not from an address that may send here"
	case webhook.ReasonAccount:
		return "another account of the provider's signed it"
	case webhook.ReasonCertificate:
		return "its certificate is not the provider's, not trusted, or not valid at this time"
	}
	return "refused (" + string(reason) + ")"
}

// notMade says that no secret made what, and which were tried.
func notMade(secrets []webhook.Secret, what string) string {
	names := make([]string, 0, len(secrets))
	for _, s := range secrets {
		names = append(names, s.Name)
	}
	switch len(names) {
	case 0:
		return "nothing made " + what + ": the endpoint has no secret"
	case 1:
		return "the endpoint's one secret (" + names[0] + ") did not make " + what
	}
	return fmt.Sprintf("none of the endpoint's %d secrets (%s) made %s", len(names), strings.Join(names, ", "), what)
}

func allowed(e endpoint.Endpoint) string {
	t, timed := e.Tolerance()
	if !timed {
		return ""
	}
	side := func(d time.Duration) string {
		if d == webhook.Unlimited {
			return "any time"
		}
		return d.String()
	}
	return fmt.Sprintf("; allowed are %s before and %s after it", side(t.Past), side(t.Future))
}

func off(d time.Duration) string {
	d = d.Round(time.Second)
	switch {
	case d == 0:
		return "exactly at"
	case d < 0:
		return (-d).String() + " after"
	}
	return d.String() + " before"
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func times(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(" %d times, and must be there once", n)
}
