package endpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
	"sluice/pkg/webhook"
)

const (
	stripeSecret   = "whsec_OpenSetSecretA1b2C3d4E5f6"
	standardSecret = "whsec_AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="
)

// world is a file system and an environment.
type world struct{ files, env map[string]string }

func (w world) read(path string) ([]byte, error) {
	if s, ok := w.files[path]; ok {
		return []byte(s), nil
	}
	return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
}

func (w world) lookup(name string) (string, bool) {
	s, ok := w.env[name]
	return s, ok
}

func (w world) load(text string) (Set, error) {
	files := map[string]string{"endpoints.yaml": text}
	for k, v := range w.files {
		files[k] = v
	}
	w.files = files
	return Load("endpoints.yaml", event.Live, w.lookup, w.read)
}

var good = world{
	files: map[string]string{"/run/s": stripeSecret + "\n"},
	env:   map[string]string{"S": stripeSecret, "SW": standardSecret},
}

func TestTheExampleFileLoads(t *testing.T) {
	text, err := os.ReadFile("../../endpoints.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	w := world{
		files: map[string]string{"/run/secrets/shop-webhooks": standardSecret + "\n", "/run/secrets/shop-webhooks-old": standardSecret},
		env:   map[string]string{"STRIPE_SIGNING_SECRET": stripeSecret, "ACME_SIGNING_SECRET": "acme-1f0a77"},
	}
	set, err := w.load(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(set.All()); n != 4 {
		t.Fatalf("endpoints = %d", n)
	}
	five := webhook.Tolerance{Past: 5 * time.Minute, Future: 5 * time.Minute}
	for name, want := range map[string]webhook.Tolerance{"stripe": five, "shop": {Past: 10 * time.Minute, Future: time.Minute}, "acme-pay": five} {
		e, ok := set.Get(name)
		if got, timed := e.Tolerance(); !ok || !timed || got != want {
			t.Errorf("%s: tolerance %v, want %v", name, got, want)
		}
		if e.Source != name || e.Mode != event.Live {
			t.Errorf("%s: source %q, mode %q", name, e.Source, e.Mode)
		}
	}
}

// Whoever takes a comment's mark away must get what the comment says. What one line
// replaces goes with it.
func TestEveryCommentedLineOfTheExampleFileIsOneThatLoads(t *testing.T) {
	text, err := os.ReadFile("../../endpoints.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	instead := map[string]string{"time_format": "time_unit", "time_zone": "time_unit", "changed_body": "time_repeats"}
	with := map[string]string{"time_zone": "time_format"}
	option := regexp.MustCompile(`^( {6,10})# ([a-z_]+)(: \S.*)$`)
	key := regexp.MustCompile(`^ {6,10}(?:# )?([a-z_]+): `)
	lines := strings.Split(string(text), "\n")
	tried := 0
	for i, line := range lines {
		m := option.FindStringSubmatch(line)
		if m == nil || m[2] == "holds" { // prose
			continue
		}
		changed := slices.Clone(lines)
		changed[i] = m[1] + m[2] + m[3]
		for j, other := range lines {
			k := key.FindStringSubmatch(other)
			switch {
			case k == nil || j == i:
			case k[1] == instead[m[2]]:
				changed[j] = ""
			case k[1] == with[m[2]]:
				changed[j] = strings.Replace(other, "# ", "", 1)
			}
		}
		w := world{
			files: map[string]string{"/run/secrets/shop-webhooks": standardSecret, "/run/secrets/shop-webhooks-old": standardSecret},
			env:   map[string]string{"STRIPE_SIGNING_SECRET": stripeSecret, "ACME_SIGNING_SECRET": "acme-1f0a77"},
		}
		_, err := w.load(strings.Join(changed, "\n"))
		if err != nil {
			t.Errorf("%s: %v", strings.TrimSpace(line), err)
		}
		tried++
	}
	if tried < 13 {
		t.Errorf("only %d commented lines were found", tried)
	}
}

func TestADeclaredEndpointVerifiesAndReads(t *testing.T) {
	text, err := os.ReadFile("../../endpoints.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, acme, _ := strings.Cut(string(text), "  - name: acme-pay")
	set, err := world{env: map[string]string{"ACME_SIGNING_SECRET": "acme-1f0a77"}}.load("endpoints:\n  - name: acme-pay" + acme)
	if err != nil {
		t.Fatal(err)
	}
	e, _ := set.Get("acme-pay")
	now := time.Unix(1700000000, 0)
	body := []byte(`{"id":"evt_vec_1","type":"payment.succeeded","created":1700000000,"data":{"order_id":"ord_vec","amount":1200,"currency":"EUR"}}`)
	headers, err := e.Provider.Sign(e.Secrets[0], "", now, body)
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	for k, v := range headers {
		h.Set(k, v)
	}
	req := webhook.Request{Header: h.Values, Body: body}
	if v := e.Verify(req, now); v.Outcome != webhook.Valid || v.Secret != "env:ACME_SIGNING_SECRET" {
		t.Errorf("verdict %+v", v)
	}
	if v := e.Verify(req, now.Add(301*time.Second)); v.Outcome != webhook.Stale {
		t.Errorf("verdict five minutes later %+v", v)
	}
	r, err := e.Read(h.Values, body)
	want := webhook.Reading{ID: "evt_vec_1", Type: "payment.succeeded", Time: now.UTC(), Mode: event.Live, Trust: event.Signed,
		Order: "ord_vec", Fact: order.KindPaid, Amount: 1200, Currency: "EUR"}
	if err != nil || r != want {
		t.Errorf("reading %+v, %v\nwant %+v", r, err, want)
	}
	r, err = e.Read(h.Values, []byte(`{"id":7,"type":"payment.updated","livemode":false,"data":{"id":"p","status":"FAILED"}}`))
	if err != nil || r.Fact != order.KindFailed || r.Mode != event.Test || r.ID != "7" || r.Payment != "p" {
		t.Errorf("reading %+v, %v", r, err)
	}
}

// O07: the provider leaves the future open, an endpoint never does.
func TestAStripeEndpointRefusesSignaturesFromTheFuture(t *testing.T) {
	set, err := good.load("endpoints: [{name: stripe, provider: stripe, secrets: [env:S]}]")
	if err != nil {
		t.Fatal(err)
	}
	e, _ := set.Get("stripe")
	now := time.Unix(1767225605, 0)
	for off, want := range map[time.Duration]webhook.Outcome{
		-301 * time.Second: webhook.Stale, -300 * time.Second: webhook.Valid, -295 * time.Second: webhook.Valid, 0: webhook.Valid,
		300 * time.Second: webhook.Valid, 301 * time.Second: webhook.Stale, 87600 * time.Hour: webhook.Stale,
	} {
		headers, _ := e.Provider.Sign(e.Secrets[0], "", now.Add(off), []byte("{}"))
		req := webhook.Request{Header: func(string) []string { return []string{headers["Stripe-Signature"]} }, Body: []byte("{}")}
		if v := e.Verify(req, now); v.Outcome != want {
			t.Errorf("signed %s from now: %v, want %v", off, v.Outcome, want)
		}
	}
}

// O05, O09, and everything else that must keep a deployment from starting. Each
// row is refused with a message that names the endpoint and holds the words, and
// never holds a secret's value.
func TestWhatMustNotStartIsRefusedWithWhatToDo(t *testing.T) {
	one := func(fields string) string { return "endpoints:\n  - {name: a, " + fields + "}\n" }
	two := func(a, b string) string { return "endpoints:\n  - {" + a + "}\n  - {" + b + "}\n" }
	declared := func(signature, reading string) string {
		return one("provider: declared, secrets: [env:S], declared: {signature: {" + signature + "}, reading: {" + reading + "}}")
	}
	const sig, read = "header: X, algorithm: sha256, encoding: hex", "id: id, type: type"
	for name, c := range map[string]struct{ text, says string }{
		"secret not set":           {one("provider: stripe, secrets: [env:NOPE]"), `endpoint "a": secrets[0]: the environment variable NOPE is not set`},
		"secret empty":             {one("provider: stripe, secrets: [env:EMPTY]"), "secrets[0]: secret env:EMPTY is empty"},
		"secret blank":             {one("provider: stripe, secrets: [env:BLANK]"), "secret env:BLANK is empty"},
		"secret only a line end":   {one("provider: stripe, secrets: [env:LINE]"), "secret env:LINE is empty"},
		"secret with space around": {one("provider: stripe, secrets: [env:PAD]"), "white space"},
		"secret a placeholder":     {one("provider: stripe, secrets: [env:CHANGEME]"), "placeholder"},
		"secret a sample":          {one("provider: svix, secrets: [env:SAMPLE]"), "known to all"},
		"another sample":           {one("provider: github, secrets: [env:GITHUB]"), "known to all"},
		"secret an API key":        {one("provider: stripe, secrets: [env:APIKEY]"), "API key"},
		"one bad of two secrets":   {one("provider: stripe, secrets: [env:S, env:EMPTY]"), "secrets[1]"},
		"secret too short":         {one("provider: svix, secrets: [env:SHORT]"), "24 to 64"},
		"secret of another form":   {one("provider: svix, secrets: [env:S]"), "not base64"},
		"private key":              {one("provider: svix, secrets: [env:PRIVATE]"), "whpk_"},
		"secret in the file":       {one("provider: stripe, secrets: [" + stripeSecret + "]"), "not a reference"},
		"secret file missing":      {one("provider: stripe, secrets: [file:/no]"), "/no"},
		"no secrets":               {one("provider: stripe"), "secrets: missing"},
		"unknown provider":         {one("provider: mock, secrets: [env:S]"), `"mock" is unknown: use one of `},
		"no provider":              {one("secrets: [env:S]"), `provider: "" is unknown`},
		"provider in other case":   {one("provider: STRIPE, secrets: [env:S]"), `"STRIPE" is unknown`},
		"unknown field":            {one("provider: stripe, secrets: [env:S], skip_verification: true"), "skip_verification"},
		"secret as no list":        {one("provider: stripe, secrets: " + stripeSecret), "endpoints.yaml:2: "},
		"secret as a map":          {one("provider: stripe, secrets: [{value: " + stripeSecret + ", x: y}]"), "endpoints.yaml:2: "},
		"secret of another kind":   {one("provider: stripe, secrets: [value: " + stripeSecret + "]"), "not a reference"},
		"wrong kind of value":      {one("provider: stripe, secrets: 7"), "endpoints.yaml:2: "},
		"name taken":               {two("name: a, provider: stripe, secrets: [env:S]", "name: a, provider: stripe, secrets: [env:S]"), "is taken"},
		"name with a slash":        {"endpoints: [{name: ../a, provider: stripe, secrets: [env:S]}]", "name: use 1 to 63"},
		"name in upper case":       {"endpoints: [{name: A, provider: stripe, secrets: [env:S]}]", "name: use 1 to 63"},
		"no name":                  {"endpoints: [{provider: stripe, secrets: [env:S]}]", "name: use 1 to 63"},
		"source shared by two":     {two("name: a, provider: stripe, secrets: [env:S]", "name: b, source: a, provider: svix, secrets: [env:SW]"), `also the source of endpoint "a"`},
		"source of Sluice's own":   {"endpoints: [{name: merchant, provider: stripe, secrets: [env:S]}]", "Sluice's own"},
		"source with a space":      {one("source: a b, provider: stripe, secrets: [env:S]"), "source: use 1 to 200"},
		"the other mode":           {one("mode: test, provider: stripe, secrets: [env:S]"), "mode: is test, the deployment is live"},
		"no mode at all":           {one("mode: prod, provider: stripe, secrets: [env:S]"), "neither live nor test"},
		"no tolerance":             {one("provider: stripe, secrets: [env:S], tolerance: {past: 0s}"), "tolerance.past"},
		"endless tolerance":        {one("provider: stripe, secrets: [env:S], tolerance: {future: 100h}"), "tolerance.future"},
		"tolerance without a time": {one("provider: github, secrets: [env:S], tolerance: {past: 1m}"), "signs no time"},
		"no declaration":           {one("provider: declared, secrets: [env:S]"), "declared: missing"},
		"idle declaration":         {one("provider: stripe, secrets: [env:S], declared: {}"), "declared: is only for"},
		"declared as built-in":     {one("provider: declared, secrets: [env:S], declared: {name: stripe}"), "declared.name"},
		"algorithm unknown":        {declared("header: X, algorithm: md5, encoding: hex", read), "signature.algorithm"},
		"encoding unknown":         {declared("header: X, algorithm: sha256, encoding: hex2", read), "signature.encoding"},
		"body unsigned":            {declared(sig+`, signed: "{header:Y}"`, read), "{body} once"},
		"body signed twice":        {declared(sig+`, signed: "{body}{body}"`, read), "{body} once"},
		"time unsigned":            {declared(sig+", timestamp: {header: Y}", read), "{timestamp} once"},
		"time from nowhere":        {declared(sig+`, signed: "{timestamp}{body}"`, read), "timestamp: missing"},
		"placeholder unknown":      {declared(sig+`, signed: "{body}{nonce}"`, read), "{nonce}"},
		"changed body unknown":     {declared(sig, read+", time: t, changed_body: newest"), "neither final nor update"},
		"update without a time":    {declared(sig, read+", changed_body: update"), "needs a time in the body"},
		"update by a header":       {declared(sig, read+", time: [t, 'header:X-Time'], changed_body: update"), "needs a time in the body"},
		"update whose time stays":  {declared(sig, read+", time: t, time_repeats: true, changed_body: update"), "time_repeats: cannot be true"},
		"no id":                    {declared(sig, "type: type"), "reading.id"},
		"kind unknown":             {declared(sig, read+", order: o, facts: [{type: t, kind: payed}]"), "reading.facts[0] (t): kind: missing, or none of those that a provider states: pending, failed, paid,"},
		"kind missing":             {declared(sig, read+", order: o, facts: [{type: t}]"), "kind: missing"},
		"kind of Sluice's own":     {declared(sig, read+", order: o, facts: [{type: t, kind: registered}]"), "none of those that a provider states"},
		"fact without an amount":   {declared(sig, read+", order: o, facts: [{type: t, kind: paid}]"), "no path of an amount"},
		"fact of nothing":          {declared(sig, read+", facts: [{type: t, kind: failed}]"), "belong to nothing"},
		"path with an empty step":  {declared(sig, "id: a..b, type: type"), "empty step"},
		"no endpoints":             {"endpoints: []", "declare at least one"},
		"an empty file":            {"", "declare at least one"},
		"not YAML":                 {"endpoints: [", "endpoints.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			w := good
			w.env = map[string]string{"S": stripeSecret, "SW": standardSecret, "EMPTY": "", "BLANK": "   ", "LINE": "\n", "PAD": " x1y2z3",
				"CHANGEME": "changeme", "APIKEY": "sk_live_51AbCdEf", "SHORT": "whsec_c2hvcnQ=", "PRIVATE": "whsk_6Xb",
				"SAMPLE": "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "GITHUB": "It's a Secret to Everybody"}
			_, err := w.load(c.text)
			if err == nil {
				t.Fatal("it started")
			}
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("error does not say %q:\n%v", c.says, err)
			}
			for _, v := range w.env {
				if len(v) > 3 && strings.Contains(err.Error(), v) && v != "changeme" {
					t.Errorf("the error holds a secret:\n%v", err)
				}
			}
		})
	}
}

func TestEveryProblemIsReportedAtOnceWithItsLine(t *testing.T) {
	_, err := good.load(`endpoints:
  - name: one
    provider: stripe
    secrets: [env:NOPE]
    tolerance: {past: 0s}

  - name: two
    provider: nobody
    mode: test
`)
	for _, want := range []string{
		`endpoints.yaml:2: endpoint "one": secrets[0]`, `endpoints.yaml:2: endpoint "one": tolerance.past`,
		`endpoints.yaml:7: endpoint "two": provider`, `endpoints.yaml:7: endpoint "two": mode`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("missing %q in:\n%v", want, err)
		}
	}
}

func TestAccountsMayShareASourceOfOneProvider(t *testing.T) {
	const same = "provider: declared, source: acme, secrets: [env:S], declared: {name: acme, signature: {header: X, algorithm: sha256, encoding: hex}, reading: {id: id, type: %s}}"
	text := func(a, b string) string {
		return "endpoints:\n  - {name: a, " + fmt.Sprintf(same, a) + "}\n  - {name: b, " + fmt.Sprintf(same, b) + "}\n"
	}
	if _, err := good.load(text("type", "type")); err != nil {
		t.Error(err)
	}
	if _, err := good.load(text("type", "event")); err == nil || !strings.Contains(err.Error(), "declared differently") {
		t.Errorf("one provider declared in two ways: %v", err)
	}
}

func TestASecretFromAFileLosesItsLineEnd(t *testing.T) {
	set, err := good.load("endpoints: [{name: a, provider: stripe, secrets: [file:/run/s]}]")
	if err != nil {
		t.Fatal(err)
	}
	e, _ := set.Get("a")
	plain, _ := webhook.NewSecret("x", stripeSecret)
	headers, _ := e.Provider.Sign(plain, "", time.Unix(1, 0), nil)
	req := webhook.Request{Header: func(string) []string { return []string{headers["Stripe-Signature"]} }}
	if v := e.Verify(req, time.Unix(1, 0)); v.Outcome != webhook.Valid || v.Secret != "file:/run/s" {
		t.Errorf("%+v", v)
	}
}

func TestARoleThatVerifiesNothingNeedsNoSecrets(t *testing.T) {
	w := world{files: map[string]string{"f": "endpoints: [{name: a, provider: stripe, secrets: [env:NOPE]}]"}}
	set, err := LoadWithoutSecrets("f", event.Test, w.read)
	if err != nil {
		t.Fatal(err)
	}
	e, ok := set.Get("a")
	if !ok || len(e.Secrets) != 0 || e.Mode != event.Test {
		t.Errorf("%+v", e)
	}
	if _, ok := set.Get("b"); ok {
		t.Error("found an endpoint that is not there")
	}
	if _, err := LoadWithoutSecrets("gone", event.Test, w.read); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
