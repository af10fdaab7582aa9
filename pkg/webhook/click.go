package webhook

import (
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// Click is the SHOP-API of Click (docs.click.uz/en/click-api-request): a form for
// Prepare (may this be paid?) and one for Complete (it was, or it failed), signed
// with an MD5 over some of its fields, one after the other without separators. So
// digits may move between neighbouring fields, and `error`, which tells a payment
// from a failure, is not signed at all. It is a two-way provider: the merchant role
// compares every field with the order, and a Complete is believed only after
// Click's own payment status was asked.
type Click struct{}

func newClick() Provider { return Click{} }

// The actions of the SHOP-API.
const (
	ClickPrepare  = "0"
	ClickComplete = "1"
)

const (
	clickCurrency = "UZS"
	// clickCancelled is the error of a payment that was called off.
	clickCancelled = -5017
)

// clickSigned are the signed fields in order; the key comes after service_id, and
// merchant_prepare_id only if action is 1. clickFields must be there, too
// (click-llc/click-integration-php BasicPaymentsErrors.php).
var (
	clickSigned = []string{"click_trans_id", "service_id", "merchant_trans_id", "merchant_prepare_id", "amount", "action", "sign_time"}
	clickFields = []string{"click_paydoc_id", "error", "error_note"}
)

// Click states no zone for sign_time; its own clock is Tashkent's, which has been
// five hours ahead of UTC all year since 1992.
var tashkent = time.FixedZone("UTC+5", 5*60*60)

func (Click) Name() string               { return "click" }
func (Click) SignatureHeaders() []string { return nil }
func (Click) TimeRepeats() bool          { return false }
func (Click) ChangedBody() ChangedBody   { return Final }

func (Click) Profile() Profile {
	return Profile{
		Title:     "Click",
		Docs:      "https://docs.click.uz/en/click-api-request",
		Secret:    "the service's SECRET_KEY",
		Signature: "MD5 in hex over fields and secret, one after the other as received, in the form's sign_string",
		Covers:    "click_trans_id, service_id, merchant_trans_id, merchant_prepare_id of a Complete, amount, action and sign_time, without separators",
		Leaves:    "error, error_note and click_paydoc_id, and where one field ends and the next begins",
		Instead:   "the merchant compares every field with the order and the attempt it stored, and a Complete is a hint until Click's payment status was asked",
		ID:        "`click_trans_id`, a colon and `action`",
		Trust:     event.Hint,
		TwoWay:    true,
		Retries:   RetriesUnknown,
	}
}

// CheckSecret refuses what is often pasted in its place.
func (Click) CheckSecret(s Secret) error {
	text := string(s.value)
	switch {
	case strings.Trim(text, "0123456789") == "":
		return fmt.Errorf("secret %s is a number, as service_id, merchant_id and merchant_user_id are: give the SECRET_KEY", s.Name)
	case strings.Count(text, ":") == 2:
		return fmt.Errorf("secret %s looks like the Auth header of the Merchant API (user:digest:time): give the SECRET_KEY", s.Name)
	}
	return nil
}

func (Click) Verify(req Request, secrets []Secret, _ time.Time) Verdict {
	form, err := uniqueForm(req.Body)
	if err != nil {
		return refuse(ReasonMalformed)
	}
	given := form["sign_string"]
	if given == "" {
		return refuse(ReasonMissing)
	}
	if _, err := clickForm(form); err != nil || len(given) != 2*md5.Size {
		return refuse(ReasonMalformed)
	}
	name, ok := matchDigest(secrets, func(s Secret) []byte { return clickSum(form, s) }, []byte(given))
	if !ok {
		return refuse(ReasonMismatch)
	}
	return Verdict{Outcome: Valid, Secret: name}
}

// clickSum is the sign_string of a form, in lower-case hex.
func clickSum(form map[string]string, s Secret) []byte {
	h := md5.New()
	for _, name := range clickSigned {
		if name == "merchant_prepare_id" && form["action"] != ClickComplete {
			continue
		}
		h.Write([]byte(form[name]))
		if name == "service_id" {
			h.Write(s.value)
		}
	}
	return hex.AppendEncode(nil, h.Sum(nil))
}

// Sign makes no header: the signature lies in the body. See Seal.
func (Click) Sign(s Secret, _ string, _ time.Time, _ []byte) (map[string]string, error) {
	if len(s.value) == 0 {
		return nil, errors.New("sign: the secret is empty")
	}
	return nil, nil
}

// Seal puts sign_string into the form, whose other fields are all there.
func (Click) Seal(s Secret, body []byte) ([]byte, error) {
	if len(s.value) == 0 {
		return nil, errors.New("sign: the secret is empty")
	}
	form, err := uniqueForm(body)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	form["sign_string"] = string(clickSum(form, s))
	out := url.Values{}
	for name, v := range form {
		out.Set(name, v)
	}
	return []byte(out.Encode()), nil
}

// ClickForm is one request, its values as received.
type ClickForm struct {
	// TransID is the attempt, PaydocID the payment that Click's API knows, which is
	// not signed.
	TransID, PaydocID, ServiceID string
	// Order is merchant_trans_id.
	Order string
	// PrepareID is what Prepare was answered; empty in a Prepare.
	PrepareID string
	// Action is ClickPrepare or ClickComplete.
	Action string
	// AmountText is the amount as sent, in soum; Amount is the same in tiyin, or 0,
	// which is no order's amount, if it cannot be read exactly.
	AmountText string
	Amount     int64
	// Error is 0, or below it what went wrong. It is not signed.
	Error int64
	// SignTime is sign_time, taken for Tashkent's; zero if it cannot be read.
	SignTime time.Time
}

// Form reads a request. An error means that fields are missing, come twice, or are
// not of their kind (Click's error -8), or that the action is unknown (-3).
func (Click) Form(body []byte) (ClickForm, error) {
	form, err := uniqueForm(body)
	if err != nil {
		return ClickForm{}, err
	}
	return clickForm(form)
}

// uniqueForm reads a form of which no field comes twice, because two readers may take
// different ones. Values keep their bytes.
func uniqueForm(body []byte) (map[string]string, error) {
	list, err := parseForm(body)
	if err != nil {
		return nil, err
	}
	form := make(map[string]string, len(list))
	for _, f := range list {
		if _, twice := form[f.name]; twice {
			return nil, errors.New("the form has a field twice")
		}
		form[f.name] = f.value
	}
	return form, nil
}

// ErrClickAction: neither Prepare nor Complete.
var ErrClickAction = errors.New("action is neither 0 nor 1")

func clickForm(form map[string]string) (ClickForm, error) {
	for _, names := range [][]string{clickSigned, clickFields} {
		for _, name := range names {
			if _, ok := form[name]; !ok && (name != "merchant_prepare_id" || form["action"] == ClickComplete) {
				return ClickForm{}, fmt.Errorf("the form has no %s", name)
			}
		}
	}
	f := ClickForm{Action: form["action"], AmountText: form["amount"]}
	if f.Action != ClickPrepare && f.Action != ClickComplete {
		return ClickForm{}, ErrClickAction
	}
	var err error
	for _, id := range []struct {
		name string
		to   *string
	}{{"click_trans_id", &f.TransID}, {"click_paydoc_id", &f.PaydocID}, {"service_id", &f.ServiceID}, {"merchant_trans_id", &f.Order}, {"merchant_prepare_id", &f.PrepareID}} {
		if id.name == "merchant_prepare_id" && f.Action == ClickPrepare {
			continue
		}
		if *id.to, err = (value{kind: plain, raw: []byte(form[id.name])}).id(); err != nil {
			return ClickForm{}, fmt.Errorf("%s %w", id.name, err)
		}
	}
	if f.Error, err = (value{kind: plain, raw: []byte(form["error"])}).integer(); err != nil {
		return ClickForm{}, fmt.Errorf("error %w", err)
	}
	if f.Amount, err = order.ParseDecimal(f.AmountText, clickCurrency); err != nil {
		f.Amount = 0
	}
	if f.SignTime, err = time.ParseInLocation(time.DateTime, form["sign_time"], tashkent); err != nil {
		f.SignTime = time.Time{}
	}
	return f, nil
}

// Read reads a request. A Complete is a hint: its error is not signed. Neither names
// a payment, because click_paydoc_id is an id that anybody could have put there: it
// must not link an order to it, nor have another order's look-up asked in its place.
func (p Click) Read(_ Headers, body []byte) (Reading, error) {
	f, err := p.Form(body)
	if err != nil {
		return Reading{}, err
	}
	switch {
	case f.Amount == 0:
		return Reading{}, errors.New("amount is no exact and positive amount in UZS")
	case f.SignTime.IsZero():
		return Reading{}, errors.New("sign_time is no date and time")
	}
	r := Reading{ID: f.TransID + ":" + f.Action, Type: "prepare", Time: f.SignTime.UTC(), Trust: event.Signed,
		Order: f.Order, Subject: f.TransID, Fact: order.KindPending, Amount: f.Amount, Currency: clickCurrency}
	if len(r.ID) > maxID {
		return Reading{}, fmt.Errorf("click_trans_id %w", errLong)
	}
	if f.Action == ClickPrepare {
		return r, nil
	}
	r.Type, r.Trust = "complete", event.Hint
	switch {
	case f.Error == 0:
		r.Fact = order.KindPaid
	case f.Error == clickCancelled:
		r.Fact = order.KindCancelled
	case f.Error < 0:
		r.Fact = order.KindFailed
	default:
		return Reading{}, errors.New("error is neither 0 nor below it")
	}
	return r, nil
}
