package webhook

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// Payme is the Merchant API of Payme (developer.help.paycom.uz): JSON-RPC calls
// with a static password, which binds nothing of the body. So it is a two-way
// provider: the merchant role holds every call to the order it stored, and what it
// then did is the event.
type Payme struct {
	addresses addresses
	fields    *paymeFields
}

// What a call says alone is no event: Perform and Cancel name neither the order
// nor the amount. The merchant role adds what it stored to the record's signature
// headers under these names, which no HTTP header can have.
const (
	// PaymeOrder is the order reference of the stored CreateTransaction.
	PaymeOrder = ":order"
	// PaymeAmount is its amount in tiyin (1 UZS = 100).
	PaymeAmount = ":amount"
	// PaymeTime is the stored perform_time or cancel_time, in Unix milliseconds.
	PaymeTime = ":time"
	// PaymeState is the state after a cancel: -1 before it was performed, -2 after.
	PaymeState = ":state"
)

// The methods of the Merchant API that Sluice knows.
const (
	PaymeCheckPerform     = "CheckPerformTransaction"
	PaymeCreate           = "CreateTransaction"
	PaymePerform          = "PerformTransaction"
	PaymeCancel           = "CancelTransaction"
	PaymeCheckTransaction = "CheckTransaction"
	PaymeGetStatement     = "GetStatement"
)

const (
	paymeLogin    = "Paycom"
	paymeCurrency = "UZS"
	// paymeRefund is the reason of a cancel that gives money back.
	paymeRefund = 5
)

func newPayme() Provider {
	// developer.help.paycom.uz/protokol-merchant-api/skhema-vzaimodeystviya: no others.
	var published []string
	for i := 1; i <= 15; i++ {
		published = append(published, fmt.Sprintf("185.234.113.%d", i))
	}
	p, err := Payme{addresses: networks(published...)}.WithOrder(Paths{"params.account.order_id"})
	if err != nil {
		panic(err)
	}
	return p
}

func (Payme) Name() string { return "payme" }
func (Payme) SignatureHeaders() []string {
	return []string{PaymeOrder, PaymeAmount, PaymeTime, PaymeState}
}
func (Payme) TimeRepeats() bool        { return true }
func (Payme) ChangedBody() ChangedBody { return Final }

func (p Payme) Addresses() []netip.Prefix { return p.addresses }

// WithAddresses is Payme from other addresses, such as a test's.
func (p Payme) WithAddresses(list []netip.Prefix) Provider {
	p.addresses = list
	return p
}

func (Payme) Profile() Profile {
	return Profile{
		Title:     "Payme",
		Docs:      "https://developer.help.paycom.uz/protokol-merchant-api",
		Secret:    "the cash box's key (another one for its sandbox)",
		Signature: "HTTP Basic with the login Paycom and the key, from the published addresses",
		Covers:    "nothing of the body",
		Leaves:    "the whole body: who has the key can send any call",
		Instead:   "only the published addresses may send, and the merchant holds each call to the order and the transaction it stored; Perform and Cancel take amount and order from there",
		ID:        "`params.id`, a colon and the method",
		Trust:     event.Signed,
		TwoWay:    true,
		Retries:   RetriesUnknown,
	}
}

// CheckSecret refuses what is often pasted in its place.
func (Payme) CheckSecret(s Secret) error {
	text := string(s.value)
	switch raw, err := hex.DecodeString(text); {
	case strings.HasPrefix(text, paymeLogin+":"), strings.HasPrefix(text, "UGF5Y29tO"), strings.HasPrefix(strings.ToLower(text), "basic "):
		return fmt.Errorf("secret %s holds the login too: give the cash box's key alone", s.Name)
	case err == nil && len(raw) == 12:
		return fmt.Errorf("secret %s looks like a cash box's id (24 hexadecimal digits): give its key", s.Name)
	}
	return nil
}

func (p Payme) Verify(req Request, secrets []Secret, _ time.Time) Verdict {
	if !p.addresses.allow(req.Remote) {
		return refuse(ReasonAddress)
	}
	header, reason := one(req.Header("Authorization"))
	if reason != ReasonNone {
		return refuse(reason)
	}
	scheme, credentials, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "basic") {
		return refuse(ReasonMalformed)
	}
	pair, err := base64.StdEncoding.Strict().DecodeString(credentials)
	if err != nil {
		return refuse(ReasonMalformed)
	}
	login, key, ok := strings.Cut(string(pair), ":")
	if !ok || login != paymeLogin {
		return refuse(ReasonMismatch)
	}
	return matched(matchStatic(secrets, []byte(key)))
}

func (Payme) Sign(s Secret, _ string, _ time.Time, _ []byte) (map[string]string, error) {
	if len(s.value) == 0 {
		return nil, errEmptySecret
	}
	pair := append([]byte(paymeLogin+":"), s.value...)
	return map[string]string{"Authorization": "Basic " + base64.StdEncoding.EncodeToString(pair)}, nil
}

// WithOrder says where in a call the order reference lies: a field of
// params.account, as the shop named it.
func (p Payme) WithOrder(paths Paths) (Provider, error) {
	if len(paths) == 0 {
		return nil, errors.New("order: no path")
	}
	f := &paymeFields{}
	at := func(path string) places {
		i, err := f.fields.add(path)
		if err != nil {
			panic(err) // the paths below are right
		}
		return places{{path: path, index: i}}
	}
	f.rpc, f.method, f.id, f.time = at("id"), at("method"), at("params.id"), at("params.time")
	f.amount, f.reason, f.from, f.until = at("params.amount"), at("params.reason"), at("params.from"), at("params.to")
	for _, path := range paths {
		if !strings.HasPrefix(path, "params.account.") {
			return nil, fmt.Errorf("order: %q: give a field of the account, for example params.account.order_id", path)
		}
		i, err := f.fields.add(path)
		if err != nil {
			return nil, fmt.Errorf("order: %w", err)
		}
		f.order = append(f.order, place{path: path, index: i})
	}
	p.fields = f
	return p, nil
}

// OrderPaths is Ordered's.
func (p Payme) OrderPaths() (all Paths) {
	for _, at := range p.fields.order {
		all = append(all, at.path)
	}
	return all
}

// AccountField names the field of the account by which the shop knows the order.
func (p Payme) AccountField() string {
	return strings.TrimPrefix(p.fields.order[0].path, "params.account.")
}

// Read reads a call that was recorded with what the merchant role stored about its
// transaction. Without that a Perform or Cancel is only a hint: it names no amount.
// Queries are no events, so they have no id.
func (p Payme) Read(header Headers, body []byte) (Reading, error) {
	call, err := p.Call(body)
	if err != nil {
		return Reading{}, err
	}
	r := Reading{Type: call.Method, Subject: call.ID, Trust: event.Signed, Currency: paymeCurrency}
	switch call.Method {
	case PaymeCheckPerform:
		r.Order, r.Amount = call.Order, call.Amount
		return r, nil
	case PaymeCheckTransaction, PaymeGetStatement:
		return r, nil
	}
	r.ID, r.Payment = call.ID+":"+call.Method, call.ID
	if call.ID == "" || len(r.ID) > maxID {
		return Reading{}, errors.New("the call names no transaction")
	}
	switch call.Method {
	case PaymeCreate:
		r.Fact, r.Order, r.Amount = order.KindPending, call.Order, call.Amount
		r.Time = paymeTime(call.Time)
		return r, nil
	case PaymePerform:
		r.Fact = order.KindPaid
	case PaymeCancel:
		r.Fact = order.KindCancelled
		if call.Reason == paymeRefund {
			r.Fact = order.KindRefund
		}
	default:
		return r, nil
	}
	if err := paymeStored(header, &r); err != nil {
		return Reading{}, err
	}
	if r.Fact == order.KindRefund {
		// There are no refunds of a part: a performed transaction is cancelled once.
		r.Object, r.Extent, r.PaymentAmount = r.Payment+":refund", Full, r.Amount
	}
	return r, nil
}

// paymeStored adds what the merchant role stored, or says that it did not.
func paymeStored(header Headers, r *Reading) error {
	p := page{header: header}
	at := func(name string) places { return places{{path: name, source: inHeader, name: name}} }
	if v, _ := p.find(at(PaymeOrder)); !v.given() && p.err == nil {
		r.Trust = event.Hint
		return nil
	}
	r.Order = need(&p, at(PaymeOrder), "order", value.id)
	r.Amount = need(&p, at(PaymeAmount), "amount", value.integer)
	at0 := need(&p, at(PaymeTime), "time", value.integer)
	r.Time = paymeTime(at0)
	if r.Fact != order.KindPaid {
		switch state := need(&p, at(PaymeState), "state", value.integer); state {
		case -1:
			r.Fact = order.KindCancelled
		case -2:
			r.Fact = order.KindRefund
		default:
			p.fail("%s is %d, neither -1 nor -2", PaymeState, state)
		}
	}
	if r.Amount <= 0 {
		p.fail("%s is not positive", PaymeAmount)
	}
	if r.Time.IsZero() {
		p.fail("%s is no time", PaymeTime)
	}
	return p.err
}

// paymeTime is Unix milliseconds as a time; zero if it cannot be one.
func paymeTime(ms int64) time.Time {
	t, err := timeForm{unit: time.Millisecond}.unix(ms)
	if err != nil || ms == 0 {
		return time.Time{}
	}
	return t
}
