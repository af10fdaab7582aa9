package provider

import (
	"crypto/sha1"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Click is its Merchant API (docs.click.uz/en/merchant-api-request): how a payment
// stands, and which payment an order has on a day. Errors come as 200 with an
// error_code below 0.
type Click struct {
	// ServiceID, UserID and SecretKey are the account that may ask.
	ServiceID, UserID, SecretKey string
	// Now is Click's clock: an Auth header older than five minutes is refused.
	Now func() time.Time

	mu       sync.Mutex
	payments map[int64]clickPayment
}

type clickPayment struct {
	order, day string
	status     int
}

// Clocks of Click and its days are Tashkent's.
var tashkent = time.FixedZone("UTC+5", 5*60*60)

// Put says how a payment of an order stands: below 0 for an error, 0 for made, 1 for
// under way, 2 for paid. at is when it was made.
func (c *Click) Put(payment int64, order string, at time.Time, status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.payments == nil {
		c.payments = map[int64]clickPayment{}
	}
	c.payments[payment] = clickPayment{order, at.In(tashkent).Format(time.DateOnly), status}
}

func (c *Click) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !c.authentic(r.Header.Get("Auth")) {
		answer(w, http.StatusUnauthorized, map[string]any{"error_code": -1, "error_note": "Authorization failed"})
		return
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /payment/status/{service}/{payment}", c.status)
	mux.HandleFunc("GET /payment/status_by_mti/{service}/{order}/{day}", c.byOrder)
	mux.ServeHTTP(w, r)
}

func (c *Click) authentic(header string) bool {
	part := strings.Split(header, ":")
	if len(part) != 3 || part[0] != c.UserID {
		return false
	}
	at, err := strconv.ParseInt(part[2], 10, 64)
	if err != nil || c.Now().Sub(time.Unix(at, 0)).Abs() > 5*time.Minute {
		return false
	}
	sum := sha1.Sum([]byte(part[2] + c.SecretKey))
	return subtle.ConstantTimeCompare([]byte(hex.EncodeToString(sum[:])), []byte(part[1])) == 1
}

func (c *Click) status(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id, err := strconv.ParseInt(r.PathValue("payment"), 10, 64)
	p, ok := c.payments[id]
	if err != nil || !ok || r.PathValue("service") != c.ServiceID {
		c.unknown(w)
		return
	}
	answer(w, http.StatusOK, map[string]any{"error_code": 0, "error_note": "Success", "payment_id": id, "payment_status": p.status})
}

// byOrder gives the last payment of the day.
func (c *Click) byOrder(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := int64(0)
	for id, p := range c.payments {
		if p.order == r.PathValue("order") && p.day == r.PathValue("day") && r.PathValue("service") == c.ServiceID {
			found = max(found, id)
		}
	}
	if found == 0 {
		c.unknown(w)
		return
	}
	answer(w, http.StatusOK, map[string]any{"error_code": 0, "error_note": "Success", "payment_id": found, "merchant_trans_id": r.PathValue("order")})
}

func (c *Click) unknown(w http.ResponseWriter) {
	answer(w, http.StatusOK, map[string]any{"error_code": -16, "error_note": "Payment not found"})
}
