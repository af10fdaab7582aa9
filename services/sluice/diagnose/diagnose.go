// Package diagnose says why a recorded request does not verify. It is pure. It
// undoes the usual mistakes one by one, and two at a time, and asks the provider's
// own Verify each time: what then verifies is proof of the mistake. It knows no
// provider by name, so every provider there is, or will be, is covered.
package diagnose

import (
	"net/netip"
	"time"

	"sluice/pkg/endpoint"
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
