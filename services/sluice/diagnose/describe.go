package diagnose

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"sluice/pkg/endpoint"
	"sluice/pkg/event"
	"sluice/pkg/order"
	"sluice/pkg/webhook"
)

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
	say(Note, "endpoint %s: %s; %s", c.Endpoint.Name, cmp.Or(f.Title, c.Endpoint.Provider.Name()), cmp.Or(f.Signature, "as declared"))
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
