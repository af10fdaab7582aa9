package lookup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"sluice/pkg/event"
	"sluice/pkg/order"
	"sluice/pkg/webhook"
)

// ContentType is the body's.
const ContentType = "application/vnd.sluice.looked-up+json"

// IsOurs says whether an event's body is in the form that Encode writes. A provider's
// own event that it has listed is looked up too, and stays in the provider's form.
func IsOurs(e event.Event) bool { return e.Trust == event.LookedUp && e.ContentType == ContentType }

// version of the body's form. Bodies lie in topics and tables for years: a change
// of meaning gets a new number, and the old one stays readable.
const version = 1

// typePrefix begins the event type of each looked-up fact: looked_up.paid.
const typePrefix = "looked_up."

// maxObject is the longest object that an event's id can be led by, in bytes.
const maxObject = 255 - 1 - 2*hashSize

const hashSize = 16 // bytes

// body is one looked-up fact. The order of the fields is the order of the bytes.
type body struct {
	Version       int        `json:"v"`
	Subject       string     `json:"subject"`
	Fact          order.Kind `json:"fact"`
	Time          string     `json:"time,omitempty"` // RFC 3339 in UTC
	Mode          event.Mode `json:"mode,omitempty"`
	Order         string     `json:"order,omitempty"`
	Payment       string     `json:"payment,omitempty"`
	Object        string     `json:"object,omitempty"`
	Amount        int64      `json:"amount,omitempty"`
	Currency      string     `json:"currency,omitempty"`
	PaymentAmount int64      `json:"payment_amount,omitempty"`
	Extent        string     `json:"extent,omitempty"`
}

var extents = map[webhook.Extent]string{webhook.ExtentUnknown: "", webhook.Full: "full", webhook.Partial: "partial"}

var (
	errNotOurs   = errors.New("the body is not the form in which look-ups are written")
	errNoSubject = errors.New("the look-up names no subject, or one that is too long")
	errNothing   = errors.New("the look-up states no fact")
	errNoMoney   = errors.New("the look-up states a fact about money without its currency")
	errNowhere   = errors.New("the look-up names neither an order nor a payment")
)

// Encode writes one fact that a provider's API stated about r.Subject. Equal
// readings give equal bytes, so the same answer is the same event. r's ID, Type and
// Trust are not written: Decode derives them. An error means that r states nothing
// that an order could use.
func Encode(r webhook.Reading) ([]byte, error) {
	b := body{Version: version, Subject: r.Subject, Fact: r.Fact, Mode: r.Mode, Order: r.Order, Payment: r.Payment,
		Object: r.Object, Amount: r.Amount, Currency: r.Currency, PaymentAmount: r.PaymentAmount, Extent: extents[r.Extent]}
	if !r.Time.IsZero() {
		b.Time = r.Time.UTC().Format(time.RFC3339Nano)
	}
	if err := b.check(); err != nil {
		return nil, err
	}
	out, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("write a looked-up fact: %w", err)
	}
	return out, nil
}

// Decode reads what Encode wrote, and nothing else: bytes that Encode would not have
// written are an error. The reading's ID is the subject with the body's hash, its
// Type is looked_up. and the fact, its Trust is LookedUp.
func Decode(text []byte) (webhook.Reading, error) {
	var b body
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil {
		return webhook.Reading{}, errNotOurs // the decoder's own words may repeat the body
	}
	if b.Version != version {
		return webhook.Reading{}, fmt.Errorf("the look-up is written in form %d; this program reads form %d", b.Version, version)
	}
	r := webhook.Reading{Trust: event.LookedUp, Type: typePrefix + b.Fact.String(), Subject: b.Subject, Fact: b.Fact, Mode: b.Mode,
		Order: b.Order, Payment: b.Payment, Object: b.Object, Amount: b.Amount, Currency: b.Currency, PaymentAmount: b.PaymentAmount}
	if b.Time != "" {
		t, err := time.Parse(time.RFC3339Nano, b.Time)
		if err != nil {
			return webhook.Reading{}, errNotOurs
		}
		r.Time = t.UTC()
	}
	for extent, word := range extents {
		if word == b.Extent {
			r.Extent = extent
		}
	}
	switch again, err := Encode(r); {
	case err != nil:
		return webhook.Reading{}, err
	case !bytes.Equal(again, text):
		return webhook.Reading{}, errNotOurs
	}
	sum := sha256.Sum256(text)
	r.ID = b.Subject + ":" + hex.EncodeToString(sum[:hashSize])
	return r, nil
}

// check holds a fact to what a webhook's reading must have, and to text that every
// later part can hold.
func (b body) check() error {
	for _, s := range []string{b.Subject, b.Order, b.Payment, b.Object} {
		if !utf8.ValidString(s) || bytes.IndexByte([]byte(s), 0) >= 0 || len(s) > 255 {
			return errNotOurs
		}
	}
	_, known := order.Exponent(b.Currency)
	switch {
	case b.Subject == "" || len(b.Subject) > maxObject:
		return errNoSubject
	case b.Fact == order.KindNone || b.Fact == order.KindRegistered || b.Fact.IsDecision():
		return errNothing
	case b.Mode != "" && b.Mode != event.Live && b.Mode != event.Test,
		b.Amount < 0, b.PaymentAmount < 0, b.Currency != "" && !known:
		return errNotOurs
	case b.Currency == "" && (b.Fact.MovesMoney() || b.Amount != 0 || b.PaymentAmount != 0):
		return errNoMoney
	case b.Order == "" && b.Payment == "":
		return errNowhere
	case b.Object == "" && (b.Fact == order.KindRefund || b.Fact == order.KindRefundFailed):
		return errNotOurs
	}
	return nil
}
