// Package sdk holds the verifiers of pkg/webhook to the providers' own SDKs: on
// requests made at random and then broken in some way, both must say the same. Where
// they do not, the difference is named here, and must come up.
//
// Adyen's and Square's Go SDKs are held to by the vectors in pkg/webhook/testdata,
// which their other SDKs were run on.
package sdk

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	paddle "github.com/PaddleHQ/paddle-go-sdk/v4"
	"github.com/slack-go/slack"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	stripe "github.com/stripe/stripe-go/v82/webhook"
	twilio "github.com/twilio/twilio-go/client"

	"sluice/pkg/webhook"
)

// rounds is how many requests each SDK is asked about.
const rounds = 20_000

// request is one delivery, whole or broken.
type request struct {
	secret string
	url    string
	header http.Header
	body   []byte
}

// scheme is one provider's, as its SDK has it.
type scheme struct {
	// signature and timestamp are headers to break; timestamp may be none.
	signature, timestamp string
	// make is a delivery that was signed now or a little before or after.
	make func(r *rand.Rand, now time.Time) request
	// accepts is the SDK's verdict.
	accepts func(request) bool
	// breaks are ways to break a delivery that only this scheme has.
	breaks []func(*rand.Rand, *request)
	// differences are the requests that the two may judge differently, and who then
	// accepts them. Each must come up.
	differences map[string]difference
}

type difference struct {
	is func(request) bool
	by acceptor
}

type acceptor bool

const (
	sluice acceptor = true
	theSDK acceptor = false
)

func TestVerdictsAreTheSDKs(t *testing.T) {
	for name, s := range map[string]scheme{
		"stripe": stripeScheme(), "standard_webhooks": standardScheme(), "slack": slackScheme(), "twilio": twilioScheme(), "paddle": paddleScheme(),
	} {
		t.Run(name, func(t *testing.T) {
			p, ok := webhook.Builtin(name)
			if !ok {
				t.Fatalf("no provider %s", name)
			}
			if timed, ok := p.(webhook.Timed); ok && name == "paddle" {
				// Its Go SDK has no tolerance unless it is asked for one.
				p = timed.WithTolerance(webhook.Tolerance{Past: webhook.Unlimited, Future: webhook.Unlimited})
			}
			compare(t, p, s)
		})
	}
}

func compare(t *testing.T, p webhook.Provider, s scheme) {
	r := rand.New(rand.NewPCG(4, 2026))
	ways, accepted := breaks(s), 0
	found := map[string]int{}
	for range rounds {
		now := time.Now()
		q := s.make(r, now)
		for range r.IntN(3) {
			ways[r.IntN(len(ways))](r, &q)
		}
		secret, err := webhook.NewSecret("test", q.secret)
		if err == nil {
			err = p.CheckSecret(secret)
		}
		if err != nil {
			t.Fatalf("the secret: %v", err)
		}
		v := p.Verify(webhook.Request{Method: http.MethodPost, URL: q.url, Header: q.header.Values, Body: q.body}, []webhook.Secret{secret}, now)
		ours, theirs := v.Outcome == webhook.Valid, s.accepts(q)
		if ours && theirs {
			accepted++
		}
		if ours == theirs {
			continue
		}
		why := ""
		for name, d := range s.differences {
			if d.is(q) && d.by == acceptor(ours) {
				why = name
			}
		}
		if why == "" {
			t.Fatalf("Sluice says %v (%s), the SDK accepts: %v\n%s\n%v\n%q", ours, v.Reason, theirs, q.url, q.header, q.body)
		}
		found[why]++
	}
	// Both ways must be there, or nothing was compared.
	if accepted < rounds/10 || accepted > rounds*9/10 {
		t.Errorf("%d of %d requests were accepted by both", accepted, rounds)
	}
	for name := range s.differences {
		if found[name] == 0 {
			t.Errorf("the difference %q no longer comes up", name)
		}
	}
}

// breaks are the ways to break a delivery.
func breaks(s scheme) []func(*rand.Rand, *request) {
	header := func(change func(*rand.Rand, string) string) func(*rand.Rand, *request) {
		return func(r *rand.Rand, q *request) {
			if v := q.header.Get(s.signature); v != "" {
				q.header.Set(s.signature, change(r, v))
			}
		}
	}
	list := []func(*rand.Rand, *request){
		func(r *rand.Rand, q *request) {
			if len(q.body) > 0 {
				q.body = slices.Clone(q.body)
				q.body[r.IntN(len(q.body))] ^= 1 << r.IntN(7)
			}
		},
		func(_ *rand.Rand, q *request) { q.body = append(slices.Clone(q.body), '\n') },
		func(_ *rand.Rand, q *request) { q.body = bytes.TrimSuffix(q.body, []byte("}")) },
		func(_ *rand.Rand, q *request) { q.header.Del(s.signature) },
		func(r *rand.Rand, q *request) { q.header.Add(s.signature, q.header.Get(s.signature)) },
		header(func(r *rand.Rand, v string) string { // another character
			i := r.IntN(len(v))
			return v[:i] + string("abc0+/=, v1.;\tZ"[r.IntN(15)]) + v[i+1:]
		}),
		header(func(r *rand.Rand, v string) string { return v[:r.IntN(len(v))] }),
		header(func(r *rand.Rand, v string) string { return v + "=" }),
		header(func(r *rand.Rand, v string) string { return strings.ToUpper(v) }),
		header(func(r *rand.Rand, v string) string { return " " + v }),
	}
	if s.timestamp != "" {
		list = append(list,
			func(_ *rand.Rand, q *request) { q.header.Del(s.timestamp) },
			func(_ *rand.Rand, q *request) { q.header.Add(s.timestamp, q.header.Get(s.timestamp)) },
			func(r *rand.Rand, q *request) {
				q.header.Set(s.timestamp, []string{"+", "0", "-", "9"}[r.IntN(4)]+q.header.Get(s.timestamp))
			})
	}
	return append(list, s.breaks...)
}

func twice(name string) func(request) bool {
	return func(q request) bool { return len(q.header.Values(name)) > 1 }
}

// offset is a distance from now that is clearly within or clearly outside 300 s.
func offset(r *rand.Rand) time.Duration {
	return time.Duration([]int{0, 0, 0, 0, -280, 280, -320, 320, -86_400, 86_400}[r.IntN(10)]) * time.Second
}

func key(r *rand.Rand, n int) []byte {
	k := make([]byte, n)
	for i := range k {
		k[i] = byte(r.UintN(256))
	}
	return k
}

func body(r *rand.Rand) []byte {
	if r.IntN(4) == 0 {
		return key(r, r.IntN(64))
	}
	return fmt.Appendf(nil, `{"id":"evt_%d","note":"€ %x","amount":%d.50}`, r.Uint32(), r.Uint64(), r.Uint32())
}

func sum(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	_, _ = io.WriteString(mac, text)
	return mac.Sum(nil)
}

func stripeScheme() scheme {
	const header = "Stripe-Signature"
	ours := func(q request) string { return q.header.Get(header) }
	return scheme{
		signature: header,
		make: func(r *rand.Rand, now time.Time) request {
			q := request{secret: "whsec_" + hex.EncodeToString(key(r, 16)), header: http.Header{}, body: body(r)}
			t := strconv.FormatInt(now.Add(offset(r)).Unix(), 10)
			parts := []string{"t=" + t, "v1=" + hex.EncodeToString(sum([]byte(q.secret), t+"."+string(q.body)))}
			for range r.IntN(3) {
				parts = append(parts, []string{"v0=", "v1=", "v1=zz", "v2="}[r.IntN(4)]+hex.EncodeToString(key(r, 32)))
			}
			r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
			q.header.Set(header, strings.Join(parts, ","))
			return q
		},
		accepts: func(q request) bool {
			return stripe.ValidatePayload(q.body, q.header.Get(header), q.secret) == nil
		},
		breaks: []func(*rand.Rand, *request){
			func(r *rand.Rand, q *request) { q.header.Set(header, ours(*q)+",t="+strconv.Itoa(r.IntN(2e9))) },
			func(_ *rand.Rand, q *request) { q.header.Set(header, "t=1767225605,"+ours(*q)) },
			func(_ *rand.Rand, q *request) { q.header.Set(header, strings.Replace(ours(*q), "t=", "t=0", 1)) },
			func(_ *rand.Rand, q *request) {
				q.header.Set(header, ours(*q)+strings.Repeat(",v1="+strings.Repeat("0", 64), 20))
			},
		},
		differences: map[string]difference{
			"a header comes twice":                 {is: twice(header), by: theSDK},
			"a second t: Go takes the last":        {is: func(q request) bool { return strings.Count(","+ours(q), ",t=") > 1 }, by: theSDK},
			"a time with a sign or a leading zero": {is: func(q request) bool { return strings.Contains(","+ours(q), ",t=0") }, by: theSDK},
			"a part with two =: Go wants one": {is: func(q request) bool {
				return slices.ContainsFunc(strings.Split(ours(q), ","), func(part string) bool { return strings.Count(part, "=") > 1 })
			}, by: sluice},
			"more signatures than a rotation sends": {is: func(q request) bool { return strings.Count(ours(q), "v1=") > 16 }, by: theSDK},
		},
	}
}

func standardScheme() scheme {
	const id, timestamp, signature = "Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"
	return scheme{
		signature: signature, timestamp: timestamp,
		make: func(r *rand.Rand, now time.Time) request {
			k := key(r, 24+r.IntN(41))
			q := request{secret: []string{"", "whsec_"}[r.IntN(2)] + base64.StdEncoding.EncodeToString(k), header: http.Header{}, body: body(r)}
			t := strconv.FormatInt(now.Add(offset(r)).Unix(), 10)
			parts := []string{"v1," + base64.StdEncoding.EncodeToString(sum(k, "msg_1."+t+"."+string(q.body)))}
			for range r.IntN(3) {
				parts = append(parts, []string{"v1,", "v1a,", "v2,", ""}[r.IntN(4)]+base64.StdEncoding.EncodeToString(key(r, 32)))
			}
			r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
			q.header.Set(id, "msg_1")
			q.header.Set(timestamp, t)
			q.header.Set(signature, strings.Join(parts, " "))
			return q
		},
		accepts: func(q request) bool {
			wh, err := standardwebhooks.NewWebhook(q.secret)
			return err == nil && wh.Verify(q.body, q.header) == nil
		},
		breaks: []func(*rand.Rand, *request){
			func(_ *rand.Rand, q *request) { q.header.Set(id, "msg_2") },
			func(_ *rand.Rand, q *request) { q.header.Del(id) },
			func(_ *rand.Rand, q *request) { q.header.Set(signature, q.header.Get(signature)+",more") },
		},
		differences: map[string]difference{
			"a header comes twice": {is: func(q request) bool { return twice(signature)(q) || twice(timestamp)(q) }, by: theSDK},
			"a time with a sign or a leading zero": {is: func(q request) bool {
				return strings.HasPrefix(q.header.Get(timestamp), "0") || strings.HasPrefix(q.header.Get(timestamp), "+")
			}, by: theSDK},
			"text after a signature, behind a comma": {is: func(q request) bool { return strings.Contains(q.header.Get(signature), "=,") }, by: theSDK},
		},
	}
}

func slackScheme() scheme {
	const timestamp, signature = "X-Slack-Request-Timestamp", "X-Slack-Signature"
	return scheme{
		signature: signature, timestamp: timestamp,
		make: func(r *rand.Rand, now time.Time) request {
			q := request{secret: hex.EncodeToString(key(r, 16)), header: http.Header{}, body: body(r)}
			t := strconv.FormatInt(now.Add(offset(r)).Unix(), 10)
			if r.IntN(20) == 0 {
				t = "0" + t
			}
			q.header.Set(timestamp, t)
			q.header.Set(signature, "v0="+hex.EncodeToString(sum([]byte(q.secret), "v0:"+t+":"+string(q.body))))
			return q
		},
		accepts: func(q request) bool {
			v, err := slack.NewSecretsVerifier(q.header, q.secret)
			if err != nil {
				return false
			}
			_, _ = v.Write(q.body)
			return v.Ensure() == nil
		},
		differences: map[string]difference{
			"a header comes twice":                 {is: func(q request) bool { return twice(signature)(q) || twice(timestamp)(q) }, by: theSDK},
			"a time with a sign or a leading zero": {is: func(q request) bool { return strings.HasPrefix(q.header.Get(timestamp), "0") }, by: theSDK},
		},
	}
}

func twilioScheme() scheme {
	const header = "X-Twilio-Signature"
	repeated := func(q request) bool {
		form, err := url.ParseQuery(string(q.body))
		for _, values := range form {
			if err == nil && len(values) > 1 {
				return true
			}
		}
		return false
	}
	sign := func(r *rand.Rand, secret, address, rest string) string {
		// With or without the port: Twilio does either.
		if r.IntN(2) == 0 {
			address = strings.Replace(strings.Replace(address, "https://shop.example/", "https://shop.example:443/", 1), ":8443/", "/", 1)
		}
		mac := hmac.New(sha1.New, []byte(secret))
		_, _ = io.WriteString(mac, address+rest)
		return base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return scheme{
		signature: header,
		make: func(r *rand.Rand, _ time.Time) request {
			q := request{secret: hex.EncodeToString(key(r, 16)), header: http.Header{}}
			q.url = []string{"https://shop.example/in?x=1", "https://shop.example:8443/in", "https://shop.example/in"}[r.IntN(3)]
			if r.IntN(3) == 0 {
				q.body = body(r)
				hash := sha256.Sum256(q.body)
				q.url += map[bool]string{true: "&", false: "?"}[strings.Contains(q.url, "?")] + "bodySHA256=" + hex.EncodeToString(hash[:])
				q.header.Set(header, sign(r, q.secret, q.url, ""))
				return q
			}
			form := url.Values{}
			for i := range r.IntN(6) {
				form.Set([]string{"To", "From", "CallSid", "Body", "a b", ""}[i], []string{"+14155550100", "€ 5", "", "x=y&z", "1"}[r.IntN(5)])
			}
			rest := ""
			for _, name := range slices.Sorted(maps(form)) {
				rest += name + form.Get(name)
			}
			q.body = []byte(form.Encode())
			q.header.Set(header, sign(r, q.secret, q.url, rest))
			return q
		},
		accepts: func(q request) bool {
			v := twilio.NewRequestValidator(q.secret)
			return v.ValidateBody(q.url, q.body, q.header.Get(header))
		},
		breaks: []func(*rand.Rand, *request){
			func(_ *rand.Rand, q *request) { q.body = append(slices.Clone(q.body), "&To=%2B14155550199"...) },
			func(_ *rand.Rand, q *request) { q.body = append(slices.Clone(q.body), "&extra=1"...) },
			func(_ *rand.Rand, q *request) { q.url += "/" },
			func(_ *rand.Rand, q *request) { q.url = strings.Replace(q.url, "https", "http", 1) },
		},
		differences: map[string]difference{
			"a header comes twice":                            {is: twice(header), by: theSDK},
			"a name comes twice: the SDK leaves out the rest": {is: repeated, by: theSDK},
		},
	}
}

func maps(v url.Values) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name := range v {
			if !yield(name) {
				return
			}
		}
	}
}

func paddleScheme() scheme {
	const header = "Paddle-Signature"
	ours := func(q request) string { return q.header.Get(header) }
	exact := regexp.MustCompile(`^ts=\d+;h1=[0-9a-f]{64}$`)
	return scheme{
		signature: header,
		make: func(r *rand.Rand, now time.Time) request {
			q := request{secret: "pdl_ntfset_" + hex.EncodeToString(key(r, 16)), header: http.Header{}, body: body(r)}
			t := strconv.FormatInt(now.Add(offset(r)).Unix(), 10)
			q.header.Set(header, "ts="+t+";h1="+hex.EncodeToString(sum([]byte(q.secret), t+":"+string(q.body))))
			return q
		},
		accepts: func(q request) bool {
			ok, err := paddle.NewWebhookVerifier(q.secret).Verify(&http.Request{Header: q.header, Body: io.NopCloser(bytes.NewReader(q.body))})
			return ok && err == nil
		},
		breaks: []func(*rand.Rand, *request){
			func(_ *rand.Rand, q *request) { q.header.Set(header, ours(*q)+";h2=0") },
			func(r *rand.Rand, q *request) { q.header.Set(header, ours(*q)+";h1="+hex.EncodeToString(key(r, 32))) },
			func(r *rand.Rand, q *request) {
				q.header.Set(header, strings.Replace(ours(*q), ";h1=", ";h1="+hex.EncodeToString(key(r, 32))+";h1=", 1))
			},
		},
		differences: map[string]difference{
			"a header comes twice":              {is: twice(header), by: theSDK},
			"two h1: the SDK takes exactly one": {is: func(q request) bool { return strings.Count(ours(q), "h1=") > 1 }, by: sluice},
			"a part of another name, or none":   {is: func(q request) bool { return !exact.MatchString(ours(q)) && strings.Count(ours(q), "h1=") == 1 }, by: sluice},
			"white space around the header":     {is: func(q request) bool { return strings.TrimSpace(ours(q)) != ours(q) }, by: theSDK},
		},
	}
}
