// Package devclick stands in for Click's Merchant API on one machine: it says of a
// payment what it was told, so that what sluice send and the demo pay at Click can be
// confirmed as it is in production. It is for development only.
package devclick

import (
	"crypto/sha1" //nolint:gosec // Click's scheme
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"sync"
)

// API is the stand-in. Its zero value is not ready; New and Open make one.
type API struct {
	secret string
	file   string // where it is kept what it was told; empty: nowhere
	mu     sync.Mutex
	orders map[string]payment // by service and order
}

type payment struct {
	ID     int64 `json:"payment_id"`
	Status int   `json:"payment_status"`
}

// New is a stand-in that answers whoever has the service's SECRET_KEY. It knows no
// payment yet.
func New(secret string) *API { return &API{secret: secret, orders: map[string]payment{}} }

// Open is a stand-in that keeps what it is told in a file, and knows what one before
// it kept there: Click does not forget a payment because a shop's server restarts.
func Open(secret, file string) (*API, error) {
	a := New(secret)
	a.file = file
	kept, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return a, nil
	}
	if err == nil {
		err = json.Unmarshal(kept, &a.orders)
	}
	if err != nil {
		return nil, fmt.Errorf("read the payments of Click's stand-in, %s (it can be removed): %w", file, err)
	}
	return a, nil
}

// Handler answers GET /payment/status_by_mti/{service}/{order}/{day} and GET
// /payment/status/{service}/{payment} as docs.click.uz/en/merchant-api-request has
// them, and PUT /pretend/{service}/{order}, by which it is told how a payment stands.
func (a *API) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /pretend/{service}/{order}", a.pretend)
	mux.HandleFunc("GET /payment/status_by_mti/{service}/{order}/{day}", a.authentic(func(r *http.Request) (map[string]any, bool) {
		p, ok := a.orders[r.PathValue("service")+"/"+r.PathValue("order")]
		return map[string]any{"payment_id": p.ID, "merchant_trans_id": r.PathValue("order")}, ok
	}))
	mux.HandleFunc("GET /payment/status/{service}/{payment}", a.authentic(func(r *http.Request) (map[string]any, bool) {
		for key, p := range a.orders {
			if strings.HasPrefix(key, r.PathValue("service")+"/") && fmt.Sprint(p.ID) == r.PathValue("payment") {
				return map[string]any{"payment_id": p.ID, "payment_status": p.Status}, true
			}
		}
		return nil, false
	}))
	return mux
}

func (a *API) pretend(w http.ResponseWriter, r *http.Request) {
	var p payment
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10)).Decode(&p); err != nil || p.ID == 0 {
		http.Error(w, "give payment_id and payment_status", http.StatusBadRequest)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.orders[r.PathValue("service")+"/"+r.PathValue("order")] = p
	if err := a.keep(); err != nil {
		http.Error(w, "the stand-in for Click's API cannot keep it: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// keep writes all of it to a file that is complete whenever it is there.
func (a *API) keep() error {
	if a.file == "" {
		return nil
	}
	text, err := json.Marshal(a.orders)
	if err != nil {
		return err
	}
	if err := os.WriteFile(a.file+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(a.file+".new", a.file)
}

// authentic holds a request to its Auth header, user:sha1(time+secret):time.
func (a *API) authentic(find func(*http.Request) (map[string]any, bool)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		parts := strings.Split(r.Header.Get("Auth"), ":")
		if len(parts) != 3 || !a.signed(parts[1], parts[2]) {
			http.Error(w, "unauthorized", http.StatusUnauthorized)
			return
		}
		a.mu.Lock()
		answer, ok := find(r)
		a.mu.Unlock()
		if !ok {
			answer = map[string]any{"error_code": -1, "error_note": "Payment not found"}
		} else {
			answer["error_code"], answer["error_note"] = 0, "Success"
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer) // who asked has gone
	}
}

func (a *API) signed(digest, at string) bool {
	sum := sha1.Sum([]byte(at + a.secret)) //nolint:gosec // Click's scheme
	return subtle.ConstantTimeCompare([]byte(digest), []byte(hex.EncodeToString(sum[:]))) == 1
}
