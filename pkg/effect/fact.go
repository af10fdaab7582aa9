package effect

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"

	"sluice/pkg/order"
)

// Fact is what a provider, the shop or a person stated, however many events state
// it, and whichever came first. Facts are one and the same if all of it is.
type Fact struct {
	Source string
	Kind   order.Kind
	// Payment is the provider's payment id.
	Payment string
	// Object is the refund's or the dispute's id; of a total of refunds the total, in
	// minor units: each greater total is a fact of its own. Empty for all else.
	Object string
}

// FactOf is the fact that an entry of an order's set states.
func FactOf(e order.Entry) Fact {
	f := Fact{Source: e.Source, Kind: e.Kind, Payment: e.Payment}
	switch e.Kind {
	case order.KindRefund, order.KindRefundFailed, order.KindDisputeOpened, order.KindDisputeWon, order.KindDisputeLost:
		f.Object = e.Object
	case order.KindRefundTotal:
		f.Object = strconv.FormatInt(e.Amount, 10)
	case order.KindRegistered:
		f.Payment = ""
	}
	return f
}

// Key names one effect of one fact on one order, for ever: over retries, restarts,
// replays and corrections. It depends on neither the version nor the event id.
type Key [16]byte

// KeyOf is the key of an effect. It is in stored rows and at receivers; it never
// changes.
func KeyOf(orderID, name string, f Fact) (k Key) {
	h := sha256.New()
	for _, part := range [...]string{orderID, name, f.Source, f.Kind.String(), f.Payment, f.Object} {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	copy(k[:], h.Sum(nil))
	return k
}

// Text is the key as receivers see it, in Idempotency-Key and webhook-id: the
// effect's name, "_" and 32 hexadecimal digits.
func (k Key) Text(name string) string { return name + "_" + hex.EncodeToString(k[:]) }

// ParseKey reads the text of a key, or its digits alone.
func ParseKey(text string) (k Key, ok bool) {
	b, err := hex.DecodeString(text[strings.LastIndexByte(text, '_')+1:])
	if err != nil || len(b) != len(k) {
		return k, false
	}
	return Key(b), true
}
