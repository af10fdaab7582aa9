package webhook

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"hash/crc32"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// recorded is a vector with its request.
type recorded struct {
	Name     string            `json:"name"`
	Provider string            `json:"provider"`
	Secret   string            `json:"secret"`
	URL      string            `json:"url"`
	Headers  map[string]string `json:"headers"`
	Body     []byte            `json:"body_base64"`
	Now      int64             `json:"now"`
	Expect   string            `json:"expect"`
	Danger   bool              `json:"danger"`
	Config   struct {
		CertPEM string `json:"cert_pem"`
		CAPEM   string `json:"ca_pem"`
	} `json:"config"`
}

func recordings(t testing.TB, file string) (list []recorded) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &list)
	}
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// recording is a provider's vector.
func recording(t testing.TB, provider, name string) recorded {
	t.Helper()
	for _, v := range recordings(t, "testdata/vectors/"+provider+".json") {
		if v.Name == name {
			return v
		}
	}
	t.Fatalf("no vector %s of %s", name, provider)
	return recorded{}
}

func (v recorded) request() Request {
	h := http.Header{}
	for name, value := range v.Headers {
		h.Set(name, value)
	}
	_, query, _ := strings.Cut(v.URL, "?")
	req := Request{Method: http.MethodPost, URL: v.URL, Body: v.Body, Header: func(name string) []string {
		if name == QueryHeader {
			return []string{query}
		}
		return h.Values(name)
	}}
	req.Certificate = Certificate{Chain: certificates(v.Config.CertPEM), Roots: x509.NewCertPool()}
	for _, c := range certificates(v.Config.CAPEM) {
		req.Certificate.Roots.AddCert(c)
	}
	return req
}

func certificates(text string) (list []*x509.Certificate) {
	for block, rest := pem.Decode([]byte(text)); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			list = append(list, c)
		}
	}
	return list
}

// The vectors marked as dangers verify although somebody changed them. Each is named
// here with what catches it, and a test of that.
func TestWhatTheSignaturesLeaveOpenIsCaughtElsewhere(t *testing.T) {
	caught := map[string]string{
		"payme/changed_amount_still_authenticates":         "TestAChangedPaymeAmountIsNeverTheEventsAmount",
		"click/error_field_flipped_to_success_still_valid": "TestAClickErrorTurnedIntoSuccessIsNotBelieved",
		"click/digit_shift_between_fields_still_valid":     "TestADigitThatMovesBetweenClickFieldsIsSeen",
		"adyen/unsigned_field_changed_still_valid":         "what is read of an item is signed",
		"flutterwave/v3_tampered_body_still_passes":        "a hint",
		"mercadopago/body_changed_still_valid":             "a hint for the signed id",
		"midtrans/status_text_changed_still_valid":         "a hint",
		"paypal/crc32_collision_still_valid":               "TestAPayPalBodyWithTheSameCRCIsNotBelieved",
	}
	files, _ := filepath.Glob("testdata/vectors/*.json")
	for _, file := range files {
		for _, v := range recordings(t, file) {
			if !v.Danger {
				continue
			}
			how, ok := caught[v.Provider+"/"+v.Name]
			if !ok {
				t.Errorf("nobody says what catches %s of %s", v.Name, v.Provider)
			}
			if p := builtinOf(t, v.Provider); p.Profile().Leaves == "" || p.Profile().Instead == "" {
				t.Errorf("the profile of %s does not say that something is left open", v.Provider)
			}
			if !strings.HasPrefix(how, "a hint") {
				continue
			}
			p, req := builtinOf(t, v.Provider), v.request()
			if got := p.Verify(req, []Secret{VectorSecret("s", v.Secret)}, noon); got.Outcome != Valid {
				t.Errorf("%s of %s does not verify: %+v", v.Name, v.Provider, got)
			}
			if r, err := p.Read(req.Header, v.Body); err != nil || r.Trust != event.Hint {
				t.Errorf("%s of %s: %+v, %v", v.Name, v.Provider, r, err)
			}
		}
	}
}

// A provider whose profile says hint never states anything that is believed.
func TestAProviderOfHintsGivesNothingElse(t *testing.T) {
	for provider, bodies := range map[string][]string{
		"yookassa":       {`{"event":"payment.succeeded","object":{"id":"p","status":"succeeded","amount":{"value":"1.00","currency":"RUB"}}}`, `{"event":"x","object":{"id":"p"}}`},
		"flutterwave":    {`{"event":"charge.completed","data":{"id":1,"status":"successful","amount":1.5,"currency":"NGN"}}`, `{"event":"x","data":{"id":1}}`},
		"midtrans":       {`{"transaction_id":"t","transaction_status":"settlement","order_id":"o","gross_amount":"1.00"}`, `{"transaction_id":"t","transaction_status":"x"}`},
		"mollie_classic": {"id=tr_1"},
		"paypal":         {`{"id":"WH-1","event_type":"PAYMENT.CAPTURE.COMPLETED","resource":{"id":"c","amount":{"value":"1.00","currency_code":"EUR"}}}`, `{"id":"WH-1","event_type":"X"}`},
		"mercadopago":    {`{"type":"payment"}`},
	} {
		p := builtinOf(t, provider)
		if p.Profile().Trust != event.Hint {
			t.Errorf("%s is not a provider of hints", provider)
		}
		for _, body := range bodies {
			r, err := p.Read(headersOf(QueryHeader, "data.id=7&type=payment"), []byte(body))
			if err != nil || r.Trust != event.Hint || r.ID == "" || strings.Contains(body, "tr_1") && r.Payment != "tr_1" {
				t.Errorf("%s %s: %+v, %v", provider, body, r, err)
			}
		}
	}
}

// A body of another amount, and in it letters that were chosen so that its CRC32 is
// the signed one: PayPal's signature verifies. What catches it is that the event is a
// hint, whose amount is PayPal's API's.
func TestAPayPalBodyWithTheSameCRCIsNotBelieved(t *testing.T) {
	v := recording(t, "paypal", "fixture_valid")
	p, req := builtinOf(t, "paypal"), v.request()
	forged := strings.Replace(string(v.Body), `"value":"1250.50"`, `"value":"9999.99"`, 1)
	letters := strings.Repeat("A", 64)
	forged = strings.Replace(forged, `"summary":"`, `"summary":"`+letters, 1)
	at := strings.Index(forged, letters)
	req.Body = collide([]byte(forged), at, len(letters), crc32.ChecksumIEEE(v.Body))
	if got := p.Verify(req, []Secret{secretOf(t, v.Secret)}, time.Unix(v.Now, 0)); got.Outcome != Valid {
		t.Fatalf("%+v: this is no collision", got)
	}
	r, err := p.Read(req.Header, req.Body)
	if err != nil || r.Amount != 999999 || r.Fact != order.KindPaid || r.Trust != event.Hint {
		t.Errorf("%+v, %v", r, err)
	}
}

// collide changes some of the n letters A at i to C, so that the body has the CRC32
// want: the CRC is linear in the bits that change, so this is a system of 32 equations.
func collide(body []byte, i, n int, want uint32) []byte {
	base := crc32.ChecksumIEEE(body)
	type row struct {
		bits uint32
		of   uint64 // which letters
	}
	var rows [32]row
	for k := range n {
		body[i+k] ^= 'A' ^ 'C'
		r := row{crc32.ChecksumIEEE(body) ^ base, 1 << k}
		body[i+k] ^= 'A' ^ 'C'
		for bit := range rows {
			if r.bits&(1<<bit) == 0 {
				continue
			}
			if rows[bit].bits == 0 {
				rows[bit] = r
				break
			}
			r.bits, r.of = r.bits^rows[bit].bits, r.of^rows[bit].of
		}
	}
	left, of := base^want, uint64(0)
	for bit := range rows {
		if left&(1<<bit) != 0 {
			left, of = left^rows[bit].bits, of^rows[bit].of
		}
	}
	for k := range n {
		if of&(1<<k) != 0 {
			body[i+k] ^= 'A' ^ 'C'
		}
	}
	return body
}
