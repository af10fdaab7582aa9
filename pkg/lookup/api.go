package lookup

import (
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/webhook"
)

// API is how one provider is asked. It is data, but for the order of its requests.
type API struct {
	// Provider is the provider's name in the endpoints file.
	Provider string
	// Docs is where the provider documents the requests.
	Docs string
	// Live and Test are its addresses for the two modes, without a last slash.
	Live, Test string
	// Credential says what it is at the provider.
	Credential string
	// Settings are what else must or may be configured.
	Settings []Setting
	// Rate is how many requests a second are made unless the endpoint says otherwise:
	// below what the provider documents, or what its like take without complaint.
	Rate float64
	// Pending is after how long an order that nothing has decided is worth asking
	// about, unless the endpoint says otherwise: what the provider documents as the life
	// of an unpaid checkout, the shortest if it has several, or longPending of one that
	// documents none.
	Pending time.Duration
	// ByPayment: a Target of which only Payment is set, as a webhook named it, is one.
	ByPayment bool
	// ByOrder: it can be asked by the shop's own order id, so a Target of which only
	// Order (and Time, when the order was made) is set is one. What it then answers are
	// the facts of every payment of that order; none at all is Unknown, for the payment
	// may still be made. Without ByOrder such a Target is Pointless.
	ByOrder bool
	// Leaves is what it does not tell, for people; empty if it tells all that a webhook
	// of the provider would.
	Leaves string

	// listing is a declared API's.
	listing *Listing
	// unknown are statuses by which it says that it knows no such object, beside 404.
	unknown []int
	auth    func(Account, time.Time) map[string]string
	token   *tokenRequest // asked for first, in place of auth
	// readers are compiled for each account, because it says where the order's id is.
	readers func(Account) (readers, error)
	// run is one look-up from its beginning. It is run anew whenever there is one answer
	// more, and only while every answer so far was one: see asking.
	run func(*asking) result
}

// longPending stands for a provider that documents no end of a checkout: the shortest
// life that a Stripe Checkout session can be given, 30 minutes, which is also what
// Mollie gives a card payment.
const longPending = 30 * time.Minute

// MaxRequests is the most requests that one look-up makes, its pages included. A
// look-up that would need more ends as Unreadable: what is known of half a list
// decides nothing. 20 pages of 100 are 2,000 refunds of one payment.
const MaxRequests = 20

// Setting is one thing that an API wants to know beside the credential.
type Setting struct {
	// Name is its name in the endpoint's `lookup.settings`.
	Name string
	// Help is a part of a sentence that says what it is.
	Help string
	// Default stands for what is not set. Without one it must be set.
	Default string
}

// orderSetting says where the shop's order id is in the provider's payment.
func orderSetting(path string) Setting {
	return Setting{Name: "order", Help: "where the provider's payment carries the shop's order id", Default: path}
}

// For is the API of a provider; false if it has none that Sluice knows.
func For(provider string) (API, bool) {
	i := slices.IndexFunc(apis, func(a API) bool { return a.Provider == provider })
	if i < 0 {
		return API{}, false
	}
	return apis[i], true
}

// silent are providers that have no API to ask, or none that is asked yet, and why.
var silent = map[string]string{
	"adyen":                adyenIsSilent,
	"adyen_manual_capture": adyenIsSilent,
}

// help.adyen.com/knowledge/ecommerce-integrations/integrations-basics, read November
// 2026. GET /sessions/{id} of the Checkout API wants the shopper's sessionResult, and
// states a session's outcome at that moment; the Management and Balance Platform APIs
// know no payments of a merchant account.
const adyenIsSilent = "Adyen has no request that says how a payment stands: it refers to its webhooks, the Customer Area and reports " +
	"(https://help.adyen.com/knowledge/ecommerce-integrations/integrations-basics/is-there-an-api-which-can-allow-me-to-show-the-status-of-the-transaction)"

// Silent says why a provider without an API here cannot be asked; empty if nobody has
// looked.
func Silent(provider string) string { return silent[provider] }

// All lists the APIs by the providers' names.
func All() []API { return slices.Clone(apis) }

// Account is whose money is asked about.
type Account struct {
	Mode event.Mode
	// BaseURL replaces the provider's address; it has no last slash. Empty: the provider's.
	BaseURL  string
	Settings map[string]string
	// Secret is the credential's value. It goes into headers of requests and nowhere else.
	Secret string
}

// String, GoString and LogValue keep the secret out of every text.
func (a Account) String() string       { return "account at " + a.BaseURL }
func (a Account) GoString() string     { return a.String() }
func (a Account) LogValue() slog.Value { return slog.StringValue(a.String()) }

// Settled is the account with every default filled in, or everything that is wrong
// with its settings. It does not look at the secret.
func (a API) Settled(account Account) (Account, error) {
	var problems []error
	known := map[string]bool{}
	settings := map[string]string{}
	for _, s := range a.Settings {
		known[s.Name] = true
		if settings[s.Name] = account.Settings[s.Name]; settings[s.Name] == "" {
			settings[s.Name] = s.Default
		}
		if settings[s.Name] == "" {
			problems = append(problems, fmt.Errorf("settings.%s: missing: set it to %s", s.Name, s.Help))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(account.Settings)) {
		if !known[name] {
			problems = append(problems, fmt.Errorf("settings.%s: %s has no such setting", name, a.Provider))
		}
	}
	if account.BaseURL == "" {
		account.BaseURL = a.Live
		if account.Mode == event.Test {
			account.BaseURL = a.Test
		}
	}
	account.Settings = settings
	if path, ok := settings["order"]; ok {
		if _, err := webhook.NewReader(webhook.Layout{ID: webhook.Paths{"id"}, Type: webhook.Paths{"type"}, Order: webhook.Paths{path}}); err != nil {
			problems = append(problems, errors.New("settings.order: "+err.Error())) // one problem, one line
		}
	}
	return account, errors.Join(problems...)
}

// Request is an HTTP request to be made. It follows no redirect.
type Request struct {
	Method, URL string
	// Header may hold credentials.
	Header map[string]string
	Body   []byte
}

// String, GoString and LogValue keep the headers out of every text.
func (r Request) String() string       { return r.Method + " " + r.URL }
func (r Request) GoString() string     { return r.String() }
func (r Request) LogValue() slog.Value { return slog.StringValue(r.String()) }

// Response is what came back. The zero Response: nothing, in time.
type Response struct {
	Status int
	// RetryAfter and Date are the headers of those names, as sent.
	RetryAfter, Date string
	// Body is whole; one that was too large has Oversized and no Body.
	Body      []byte
	Oversized bool
}

// Outcome says how a look-up ended.
type Outcome uint8

const (
	// Answered: the provider said what it knows of the object. Facts may be empty, if
	// it knows of nothing that concerns an order.
	Answered Outcome = iota + 1
	// Unknown: the provider knows no such object, or no payment of that order, or not yet.
	Unknown
	// Unavailable: no answer: none in time, an error of the provider, too many requests.
	Unavailable
	// Refused: the provider does not take the credential. A person must look.
	Refused
	// Unreadable: an answer that nobody understands, or about another object, of the
	// other mode, or without an end (MaxRequests).
	Unreadable
	// Pointless: there is nothing to ask about, now or ever.
	Pointless
)

var outcomes = [...]string{"none", "answered", "unknown", "unavailable", "refused", "unreadable", "pointless"}

// String is a word fit for a metric label.
func (o Outcome) String() string { return outcomes[o] }

// Step is what comes next: a request, or else the end.
type Step struct {
	Request *Request
	Outcome Outcome
	// Facts are what was learnt (Answered only): each as Encode takes it.
	Facts []webhook.Reading
	// RetryAfter is how long the provider asks to be left alone; 0: it does not say.
	RetryAfter time.Duration
	// Why says for people what was wrong. It carries no part of a body, and no secret.
	Why string
}

// Lookup asks one account. It is a value without state, safe for concurrent use.
type Lookup struct {
	api     API
	account Account
	readers readers
}

// New makes an account's look-up, or says everything that is wrong with its settings.
func (a API) New(account Account) (*Lookup, error) {
	account, err := a.Settled(account)
	if err != nil {
		return nil, err
	}
	r, err := a.readers(account)
	if err != nil {
		return nil, fmt.Errorf("make the look-up of %s: %w", a.Provider, err)
	}
	return &Lookup{api: a, account: account, readers: r}, nil
}

// Next says what to do about a target after the responses so far. The responses are
// those of the requests it gave before, in their order. token is what ReadToken gave,
// empty if the API needs none.
func (l *Lookup) Next(t Target, got []Response, token string, now time.Time) Step {
	if len(got) > 0 {
		if end := l.api.judge(got[len(got)-1], now); end.Outcome != Answered {
			return end
		}
	}
	a := asking{readers: l.readers, target: t, account: l.account}
	for _, r := range got {
		a.got = append(a.got, r.Body)
	}
	result := l.api.run(&a)
	request := a.next
	switch {
	case request == nil:
		return result.step(t, l.account.Mode)
	case len(got) >= MaxRequests:
		return endless.step(t, l.account.Mode)
	}
	l.authorize(request, token, now)
	return Step{Request: request}
}

// authorize makes a request the account's.
func (l *Lookup) authorize(r *Request, token string, now time.Time) {
	switch {
	case l.api.token != nil:
		r.set("Authorization", "Bearer "+token)
	case l.api.auth != nil:
		for name, value := range l.api.auth(l.account, now) {
			r.set(name, value)
		}
	}
	r.set("Accept", "application/json")
}

func (r *Request) set(name, value string) {
	if r.Header == nil {
		r.Header = map[string]string{}
	}
	r.Header[name] = value
}

// judge says whether a response is an answer at all.
func (a API) judge(r Response, now time.Time) Step {
	switch s := r.Status; {
	case s == 0:
		return Step{Outcome: Unavailable, Why: "no answer in time"}
	case s == 429 || s == 503:
		return Step{Outcome: Unavailable, RetryAfter: retryAfter(r, now), Why: fmt.Sprintf("status %d: too many requests, or not now", s)}
	case s == 408 || s >= 500:
		return Step{Outcome: Unavailable, RetryAfter: retryAfter(r, now), Why: fmt.Sprintf("status %d", s)}
	case s == 401 || s == 403:
		return Step{Outcome: Refused, Why: fmt.Sprintf("status %d: the provider does not take the credential, or the account may not ask this", s)}
	case s == 404 || s == 410 || slices.Contains(a.unknown, s):
		return Step{Outcome: Unknown, Why: fmt.Sprintf("status %d: the provider knows no such object", s)}
	case s != 200:
		return Step{Outcome: Unreadable, Why: fmt.Sprintf("status %d is no answer", s)}
	case r.Oversized:
		return Step{Outcome: Unreadable, Why: "the answer is too large"}
	}
	return Step{Outcome: Answered}
}

// maxRetryAfter bounds what a provider may ask for; beyond it somebody has looked.
const maxRetryAfter = time.Hour

// imfDate is how a date is written in headers (RFC 9110, 5.6.7).
const imfDate = "Mon, 02 Jan 2006 15:04:05 GMT"

// retryAfter reads seconds, or a date by the clock of the answer's own Date, which is
// that of whoever wrote it; only without one by ours.
func retryAfter(r Response, now time.Time) time.Duration {
	text := strings.TrimSpace(r.RetryAfter)
	if n, err := strconv.Atoi(text); err == nil {
		return min(time.Duration(min(max(n, 0), 1<<20))*time.Second, maxRetryAfter)
	}
	until, err := time.Parse(imfDate, text)
	if err != nil {
		return 0
	}
	if date, err := time.Parse(imfDate, strings.TrimSpace(r.Date)); err == nil {
		now = date
	}
	if now.IsZero() {
		return 0
	}
	return min(max(until.Sub(now), 0), maxRetryAfter)
}

func basic(user, password string) map[string]string {
	return map[string]string{"Authorization": "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))}
}

func bearer(a Account, _ time.Time) map[string]string {
	return map[string]string{"Authorization": "Bearer " + a.Secret}
}
