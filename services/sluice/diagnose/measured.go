package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sluice/pkg/webhook"
	"sluice/services/sluice/recorded"
)

// contentLength is what the request says of its body.
func contentLength(r recorded.Request) (int, bool) {
	values := r.Values("Content-Length")
	if len(values) == 0 {
		return 0, false
	}
	n, err := strconv.Atoi(strings.TrimSpace(values[0]))
	return n, err == nil && n >= 0
}

// measured are causes that need no trial.
func measured(c Case, s subject, v webhook.Verdict, asked []string) (found []Cause) {
	if n, stated := contentLength(c.Request); stated && n > len(s.body) && len(s.header("Content-Encoding")) == 0 {
		found = append(found, Cause{Mistake: Truncated, Proven: true,
			Text: fmt.Sprintf("the body is cut off: it has %d of the %d bytes that Content-Length states", len(s.body), n),
			Do:   "look for a limit of the proxy, the middleware or the recording; if the recording lost it, give the body with --body FILE"})
	}
	missing := func() (names []string) {
		s.asked = nil
		for _, name := range asked {
			if len(s.header(name)) == 0 {
				names = append(names, name)
			}
		}
		return names
	}
	switch v.Reason {
	case webhook.ReasonMissing:
		names := missing()
		if len(names) == 0 {
			found = append(found, Cause{Mistake: HeaderMissing, Proven: true, Text: "a part of the request that the scheme needs is empty or missing: the signature stands in the body or in a header, and is not there",
				Do: "see whether the request is the provider's at all, and whether the body is whole"})
			break
		}
		name := missed(c.Request, names)
		cause := Cause{Mistake: HeaderMissing, Proven: true, Text: "header " + name + " is missing",
			Do: "see whether a proxy drops it, and whether the request is this provider's at all"}
		if name == webhook.QueryHeader {
			cause.Text, cause.Do = "the address has no query, and the scheme signs a part of it", "hand the query through: a rewrite or redirect has dropped it"
		}
		found = append(found, cause)
	case webhook.ReasonMalformed:
		name := "that is asked for"
		if len(asked) > 0 {
			name = asked[len(asked)-1]
		}
		for _, n := range asked {
			if k := len(s.header(n)); k > 1 {
				found = append(found, Cause{Mistake: HeaderRepeated, Proven: true, Text: fmt.Sprintf("header %s comes %d times", n, k), Do: "let no proxy add a copy of it"})
			}
		}
		found = append(found, Cause{Mistake: Malformed, Text: "header " + name + ", or one beside it, is not of the form that the scheme sends",
			Do: "compare it with the provider's documentation: " + c.Endpoint.Provider.Profile().Docs})
	case webhook.ReasonEmpty:
		found = append(found, Cause{Mistake: Empty, Proven: true, Text: "the batch has no items, so nothing in it is signed", Do: "send it with an item; providers send none without"})
	case webhook.ReasonAddress:
		cause := Cause{Mistake: Address, Proven: true, Text: fmt.Sprintf("it comes from %s, where this endpoint's provider does not send from", c.Remote),
			Do: "see whether a proxy in front is trusted (its forwarding header counts only then), or set the endpoint's addresses"}
		if !c.Remote.IsValid() {
			cause.Text, cause.Do = "the scheme needs the sender's address, which a recording does not have", "give it with --from ADDRESS"
		}
		found = append(found, cause)
	case webhook.ReasonAccount:
		found = append(found, Cause{Mistake: Account, Proven: true, Text: "it was signed for another account than the endpoint's", Do: "set the endpoint's account, or remove the webhook at the other account"})
	case webhook.ReasonCertificate:
		cause := Cause{Mistake: Certificate, Proven: len(c.Certificate.Chain) > 0, Text: "the certificate is not the provider's, not trusted, or not valid at this time",
			Do: "see to which host the request's certificate address leads"}
		if len(c.Certificate.Chain) == 0 {
			cause.Text, cause.Do = "the scheme needs the certificate that the request names, and there is none", "give it with --certificate FILE (PEM, the signing certificate first)"
		}
		found = append(found, cause)
	}
	return found
}

// missed is the absent header to blame: one whose siblings are there (of svix-id,
// svix-timestamp and svix-signature), else the last that was asked for, where
// verification ended.
func missed(r recorded.Request, absent []string) string {
	for _, name := range absent {
		family, _, ok := strings.Cut(strings.ToLower(name), "-")
		if ok && family != "x" && slices.ContainsFunc(r.Headers, func(h recorded.Header) bool { return strings.HasPrefix(strings.ToLower(h.Name), family+"-") }) {
			return name
		}
	}
	return absent[len(absent)-1]
}

// likely are causes that cannot be proved: what was lost cannot be put back.
func likely(c Case, s subject, v webhook.Verdict, asked []string) (found []Cause) {
	for _, secret := range s.endpoint.Secrets {
		if err := s.endpoint.Provider.CheckSecret(secret); err != nil {
			found = append(found, Cause{Mistake: SecretKind, Text: err.Error(), Do: "set it to " + cmp.Or(c.Endpoint.Provider.Profile().Secret, "the endpoint's signing secret")})
		} else if whose := secret.APIKeyOf(); whose != "" && !strings.Contains(strings.ToLower(c.Endpoint.Provider.Profile().Secret), "api") {
			found = append(found, Cause{Mistake: SecretKind, Text: fmt.Sprintf("secret %s begins as an API key of %s does", secret.Name, whose),
				Do: "set it to " + cmp.Or(c.Endpoint.Provider.Profile().Secret, "the endpoint's signing secret")})
		}
	}
	if v.Reason != webhook.ReasonMismatch {
		return found
	}
	for _, name := range asked {
		if name != webhook.QueryHeader && len(s.header(name)) == 0 {
			found = append(found, Cause{Mistake: HeaderMissing, Text: "header " + name + " is not there, and is signed where the provider sends it", Do: "see whether a proxy drops it"})
		}
	}
	if n, stated := contentLength(c.Request); stated && n > len(s.body) {
		return found // of what is not there nobody can say who signed it
	}
	switch {
	case len(s.body) == 0:
		found = append(found, Cause{Mistake: Truncated, Text: "the recording has no body", Do: "give the body with --body FILE"})
	case c.Request.Lossy:
		found = append(found, Cause{Mistake: Recording, Text: "the recording did not keep every byte of the body", Do: "record it again as raw HTTP or with curl --trace, or give the body's bytes with --body FILE"})
	default:
		found = append(found, lost(s)...)
	}
	if c.Endpoint.Provider.Profile().NeedsURL {
		found = append(found, Cause{Mistake: WrongURL, Text: "another URL than the endpoint's " + c.Endpoint.URL + " may have been signed; those that the recording names were tried",
			Do: "compare the endpoint's url with the address that is entered at the provider, to the letter: host, port, path, last slash and query"})
	}
	return append(found, Cause{Mistake: WrongSecret, Text: notMade(s.endpoint.Secrets, "this signature, in any form that was tried"),
		Do: "compare with what the provider shows for this very address and mode (test and live have their own): " + cmp.Or(c.Endpoint.Provider.Profile().Secret, "the signing secret") +
			"; if it is that one, something that is signed is not as it was sent: record the request before anything reads it"})
}
