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

// ClickZone is that of Click's clock, by which it signs times and counts days without
// saying so: Tashkent's, five hours ahead of UTC all year since 1992.
var ClickZone = time.FixedZone("UTC+5", 5*60*60)

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
	return matched(matchDigest(secrets, func(s Secret) []byte { return clickSum(form, s) }, []byte(given)))
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
		return nil, errEmptySecret
	}
	return nil, nil
}

// Seal puts sign_string into the form, whose other fields are all there.
func (Click) Seal(s Secret, body []byte) ([]byte, error) {
	if len(s.value) == 0 {
		return nil, errEmptySecret
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
