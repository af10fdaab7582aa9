package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

func TestMercadoPagoSignsTheObjectOfTheQuery(t *testing.T) {
	p := builtinOf(t, "mercadopago")
	old, fresh := Secret{"old", []byte("mp-0f3b9a")}, Secret{"new", []byte("mp-77aa01")}
	h, err := p.Sign(old, "req-1", noon, []byte(`{"data":{"id":"Pay1"}}`))
	if err != nil {
		t.Fatal(err)
	}
	good := h[mercadoSignature]
	ts, v1, _ := strings.Cut(good, ",")
	without := func(manifest string) string { return ts + ",v1=" + hexHMAC(old, manifest) }
	bare := strings.TrimPrefix(ts, "ts=")
	for name, c := range map[string]struct {
		headers []string
		want    Reason
	}{
		"right":                   {[]string{QueryHeader, "data.id=Pay1&type=payment", mercadoRequest, "req-1", mercadoSignature, good}, ReasonNone},
		"escaped in the query":    {[]string{QueryHeader, "type=payment&data.id=%50ay1", mercadoRequest, "req-1", mercadoSignature, good}, ReasonNone},
		"another version beside":  {[]string{QueryHeader, "data.id=Pay1", mercadoRequest, "req-1", mercadoSignature, good + ",v2=aaaa"}, ReasonNone},
		"spaces":                  {[]string{QueryHeader, "data.id=Pay1", mercadoRequest, "req-1", mercadoSignature, ts + ", " + v1}, ReasonNone},
		"no request id":           {[]string{QueryHeader, "data.id=Pay1", mercadoSignature, without("id:Pay1;ts:" + bare + ";")}, ReasonNone},
		"no object":               {[]string{QueryHeader, "type=payment", mercadoSignature, without("ts:" + bare + ";")}, ReasonNone},
		"in lower case":           {[]string{QueryHeader, "data.id=pay1", mercadoRequest, "req-1", mercadoSignature, good}, ReasonMismatch},
		"another object":          {[]string{QueryHeader, "data.id=Pay2", mercadoRequest, "req-1", mercadoSignature, good}, ReasonMismatch},
		"another request":         {[]string{QueryHeader, "data.id=Pay1", mercadoRequest, "req-2", mercadoSignature, good}, ReasonMismatch},
		"request id taken out":    {[]string{QueryHeader, "data.id=Pay1", mercadoSignature, good}, ReasonMismatch},
		"no last semicolon":       {[]string{QueryHeader, "data.id=Pay1", mercadoRequest, "req-1", mercadoSignature, without("id:Pay1;request-id:req-1;ts:" + bare)}, ReasonMismatch},
		"the object twice":        {[]string{QueryHeader, "data.id=Pay1&data.id=Pay2", mercadoRequest, "req-1", mercadoSignature, good}, ReasonMalformed},
		"the request twice":       {[]string{QueryHeader, "data.id=Pay1", mercadoRequest, "req-1", mercadoRequest, "req-1", mercadoSignature, good}, ReasonMalformed},
		"the signature twice":     {[]string{QueryHeader, "data.id=Pay1", mercadoRequest, "req-1", mercadoSignature, good, mercadoSignature, good}, ReasonMalformed},
		"a second time":           {[]string{QueryHeader, "data.id=Pay1", mercadoRequest, "req-1", mercadoSignature, ts + "," + good}, ReasonMalformed},
		"no time":                 {[]string{QueryHeader, "data.id=Pay1", mercadoRequest, "req-1", mercadoSignature, v1}, ReasonMalformed},
		"words for a time":        {[]string{QueryHeader, "data.id=Pay1", mercadoRequest, "req-1", mercadoSignature, "ts=now," + v1}, ReasonMalformed},
		"garbage":                 {[]string{QueryHeader, "data.id=Pay1", mercadoRequest, "req-1", mercadoSignature, "this-is-garbage"}, ReasonMalformed},
		"only another version":    {[]string{QueryHeader, "data.id=Pay1", mercadoRequest, "req-1", mercadoSignature, ts + ",v2=aaaa"}, ReasonMalformed},
		"no header":               {[]string{QueryHeader, "data.id=Pay1", mercadoRequest, "req-1"}, ReasonMissing},
		"a query nobody can read": {[]string{QueryHeader, "data.id=%zz", mercadoRequest, "req-1", mercadoSignature, good}, ReasonMismatch},
	} {
		v := p.Verify(Request{Header: headersOf(c.headers...), Body: []byte("{}")}, []Secret{fresh, {}, old}, noon.Add(48*time.Hour))
		if v.Reason != c.want || (v.Secret == "old") != (c.want == ReasonNone) || v.Outcome == Valid && !v.SignedAt.Equal(noon) {
			t.Errorf("%s: %+v, want %q", name, v, c.want)
		}
	}
	// Seconds, too; and an endpoint may hold it to a time.
	seconds := "ts=1767225605,v1=" + hexHMAC(old, "id:Pay1;ts:1767225605;")
	bounded := p.(Timed).WithTolerance(Tolerance{Past: time.Minute, Future: time.Minute})
	for off, want := range map[time.Duration]Outcome{0: Valid, time.Minute: Valid, 61 * time.Second: Stale, -61 * time.Second: Stale} {
		if v := bounded.Verify(Request{Header: headersOf(QueryHeader, "data.id=Pay1", mercadoSignature, seconds)}, []Secret{old}, noon.Add(off)); v.Outcome != want {
			t.Errorf("%v off: %+v", off, v)
		}
	}
	for _, value := range []string{"APP_USR-123-abc", "TEST-123-abc"} {
		if err := p.CheckSecret(secretOf(t, value)); err == nil || !strings.Contains(err.Error(), "access token") || strings.Contains(err.Error(), value) {
			t.Errorf("%v", err)
		}
	}
	if _, err := p.Sign(Secret{}, "m", noon, []byte(`{"data":{"id":"1"}}`)); err == nil {
		t.Error("it signs without a secret")
	}
}

// hexHMAC is the HMAC-SHA256 of a text in hex.
func hexHMAC(s Secret, text string) string {
	return hex.EncodeToString(appendHMAC(nil, sha256.New, s.value, []byte(text)))
}

func TestAMercadoPagoNotificationIsAboutTheSignedObject(t *testing.T) {
	p := builtinOf(t, "mercadopago")
	body := []byte(`{"action":"payment.updated","data":{"id":"other"},"id":123,"live_mode":false,"type":"payment"}`)
	for name, c := range map[string]struct {
		headers []string
		want    Reading
	}{
		"a payment":           {[]string{QueryHeader, "data.id=pay1&type=payment", mercadoRequest, "r:1"}, Reading{ID: "pay1:r%3A1", Type: "payment", Payment: "pay1", Subject: "pay1"}},
		"without a request":   {[]string{QueryHeader, "data.id=pay1"}, Reading{ID: "pay1", Type: "payment", Payment: "pay1", Subject: "pay1"}},
		"another kind of one": {[]string{QueryHeader, "data.id=7&type=topic_merchant_order_wh", mercadoRequest, "r"}, Reading{ID: "7:r", Type: "topic_merchant_order_wh", Subject: "7"}},
	} {
		c.want.Trust = event.Hint
		if r, err := p.Read(headersOf(c.headers...), body); err != nil || r != c.want {
			t.Errorf("%s: %+v, %v\nwant %+v", name, r, err, c.want)
		}
	}
	for _, query := range []string{"", "type=payment", "data.id=1&data.id=2", "data.id="} {
		if r, err := p.Read(headersOf(QueryHeader, query), body); err == nil || r != (Reading{}) {
			t.Errorf("%q: %+v", query, r)
		}
	}
}

func TestMollieTakesOneOfItsSignaturesAndNoRequestWithout(t *testing.T) {
	p := builtinOf(t, "mollie")
	old, fresh := Secret{"old", []byte("mollie-0f3b9a")}, Secret{"new", []byte("mollie-77aa01")}
	body := []byte(`{"id":"event_1"}`)
	good := hexHMAC(old, string(body))
	for name, c := range map[string]struct {
		headers []string
		want    Reason
	}{
		"with its prefix":     {[]string{"sha256=" + good}, ReasonNone},
		"without":             {[]string{good}, ReasonNone},
		"one of several":      {[]string{"sha256=" + strings.Repeat("0", 64), "sha256=" + good}, ReasonNone},
		"joined by a proxy":   {[]string{"sha256=" + strings.Repeat("0", 64) + ", sha256=" + good}, ReasonNone},
		"of nobody":           {[]string{"sha256=" + strings.Repeat("0", 64)}, ReasonMismatch},
		"another prefix":      {[]string{"sha512=" + good}, ReasonMalformed},
		"short":               {[]string{"sha256=" + good[:62]}, ReasonMalformed},
		"empty":               {[]string{""}, ReasonMissing},
		"a classic one":       {nil, ReasonMissing},
		"more than one reads": {append(strings.Split(strings.Repeat("x,", 16), ","), good), ReasonMalformed},
	} {
		req := Request{Body: body, Header: func(string) []string { return c.headers }}
		v := p.Verify(req, []Secret{fresh, {}, old}, noon)
		if v.Reason != c.want || (v.Secret == "old") != (c.want == ReasonNone) {
			t.Errorf("%s: %+v, want %q", name, v, c.want)
		}
	}
	req := signed(t, p, old, "", noon, body)
	if v := p.Verify(req, []Secret{old}, noon); v.Outcome != Valid {
		t.Errorf("%+v", v)
	}
	if req.Body = []byte(`{"id":"event_2"}`); p.Verify(req, []Secret{old}, noon).Outcome != Invalid {
		t.Error("another body verifies")
	}
	for _, value := range []string{"live_dHar4XY7LxsDOtmnkVtjNVWXLSlXsM", "access_Wwvu7egPcJLLJ9Kb7J632x8wJ2zMeJ"} {
		if err := p.CheckSecret(secretOf(t, value)); err == nil || !strings.Contains(err.Error(), "API key") || strings.Contains(err.Error(), value) {
			t.Errorf("%v", err)
		}
	}
}

func TestAMollieEventIsReadIfItCarriesItsEntity(t *testing.T) {
	p := builtinOf(t, "mollie")
	r, err := p.Read(headersOf(), []byte(`{"resource":"event","id":"event_1","type":"payment-link.paid","entityId":"pl_1","createdAt":"2026-01-01T00:00:05+00:00",`+
		`"_embedded":{"entity":{"id":"pl_1","amount":{"value":"1250.50","currency":"EUR"}}}}`))
	want := Reading{ID: "event_1", Type: "payment-link.paid", Time: time.Unix(1767225605, 0).UTC(), Trust: event.Signed, Payment: "pl_1", Subject: "pl_1",
		Fact: order.KindPaid, Amount: 125050, Currency: "EUR"}
	if err != nil || r != want {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := p.Read(headersOf(), []byte(`{"id":"event_1","type":"payment-link.paid","entityId":"pl_1"}`)); err == nil {
		t.Errorf("money without an amount: %+v", r)
	}
	if r, err := p.Read(headersOf(), []byte(`{"id":"event_1","type":"sales-invoice.created","entityId":"i"}`)); err != nil || r.Fact != order.KindNone {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestAClassicMollieWebhookIsOnlyAnID(t *testing.T) {
	p := builtinOf(t, "mollie_classic")
	for body, want := range map[string]Reason{
		"id=tr_5B8cwPMGnU": ReasonNone, "id=ord_kEn1PlbGa": ReasonNone, "testByMollie=1&id=tr_1": ReasonNone,
		"": ReasonMalformed, "id=": ReasonMalformed, "id=tr_": ReasonMalformed, "id=_x": ReasonMalformed, "id=tr": ReasonMalformed, "id=tr_1&id=tr_2": ReasonMalformed,
		"id=tr_../payments": ReasonMalformed, "id=tr_1%2F..": ReasonMalformed, "id=tr_%00": ReasonMalformed, `{"id":"tr_1"}`: ReasonMalformed,
		"id=tr_" + strings.Repeat("a", 62): ReasonMalformed,
	} {
		if v := p.Verify(Request{Header: headersOf(), Body: []byte(body)}, nil, noon); v.Reason != want {
			t.Errorf("%q: %+v", body, v)
		}
	}
	r, err := p.Read(headersOf(), []byte("id=tr_5B8cwPMGnU"))
	if want := (Reading{ID: "tr_5B8cwPMGnU", Type: "changed", Trust: event.Hint, Payment: "tr_5B8cwPMGnU", Subject: "tr_5B8cwPMGnU"}); err != nil || r != want {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestYooKassaIsItsAddressesAlone(t *testing.T) {
	p := builtinOf(t, "yookassa")
	for address, want := range map[string]Reason{
		"185.71.76.0": ReasonNone, "185.71.76.31": ReasonNone, "185.71.77.5": ReasonNone, "77.75.153.127": ReasonNone, "77.75.154.128": ReasonNone,
		"77.75.156.11": ReasonNone, "77.75.156.35": ReasonNone, "2a02:5180:0:1509::1": ReasonNone, "::ffff:185.71.76.1": ReasonNone,
		"185.71.76.32": ReasonAddress, "77.75.153.128": ReasonAddress, "77.75.154.127": ReasonAddress, "77.75.156.36": ReasonAddress, "77.75.156.10": ReasonAddress,
		"192.168.1.1": ReasonAddress, "2a02:5181::1": ReasonAddress, "127.0.0.1": ReasonAddress,
	} {
		if v := p.Verify(Request{Header: headersOf(), Remote: netip.MustParseAddr(address)}, nil, noon); v.Reason != want || (v.Outcome == Valid) != (want == ReasonNone) {
			t.Errorf("%s: %+v", address, v)
		}
	}
	if v := p.Verify(Request{Header: headersOf()}, nil, noon); v.Reason != ReasonAddress {
		t.Errorf("from nowhere: %+v", v)
	}
	nobody := p.(Addressed).WithAddresses(nil)
	if v := nobody.Verify(Request{Header: headersOf(), Remote: netip.MustParseAddr("185.71.76.0")}, nil, noon); v.Reason != ReasonAddress {
		t.Errorf("with no addresses: %+v", v)
	}
}

func TestACanceledYooKassaPaymentMayHaveFailed(t *testing.T) {
	p := builtinOf(t, "yookassa")
	for details, want := range map[string]order.Kind{
		"": order.KindCancelled, `,"cancellation_details":{"party":"merchant","reason":"canceled_by_merchant"}`: order.KindCancelled,
		`,"cancellation_details":{"party":"yoo_money","reason":"expired_on_confirmation"}`:  order.KindCancelled,
		`,"cancellation_details":{"party":"payment_network","reason":"insufficient_funds"}`: order.KindFailed,
		`,"cancellation_details":{"party":"yoo_money","reason":"fraud_suspected"}`:          order.KindFailed,
	} {
		r, err := p.Read(headersOf(), []byte(`{"type":"notification","event":"payment.canceled","object":{"id":"p:1","status":"canceled","amount":{"value":"2.00","currency":"RUB"},`+
			`"metadata":{"order_id":"o"},"created_at":"2026-01-01T00:00:05.123Z"`+details+`}}`))
		if err != nil || r.Fact != want || r.ID != "payment.canceled:p%3A1:canceled" || r.Payment != "p:1" || r.Order != "o" || r.Trust != event.Hint {
			t.Errorf("%s: %+v, %v", details, r, err)
		}
	}
	r, err := p.Read(headersOf(), []byte(`{"event":"refund.succeeded","object":{"id":"r","payment_id":"p","status":"succeeded","amount":{"value":"1.5","currency":"RUB"}}}`))
	if err != nil || r.Fact != order.KindRefund || r.Payment != "p" || r.Object != "r" || r.Amount != 150 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestFlutterwaveV3IsAPasswordAndV4ASignature(t *testing.T) {
	p, s := builtinOf(t, "flutterwave"), secretOf(t, "flw-0f3b9a")
	for name, c := range map[string]struct {
		headers []string
		want    Reason
	}{
		"right":   {[]string{"verif-hash", "flw-0f3b9a"}, ReasonNone},
		"another": {[]string{"verif-hash", "flw-0f3b9b"}, ReasonMismatch},
		"short":   {[]string{"verif-hash", "flw-0f3b9"}, ReasonMismatch},
		"long":    {[]string{"verif-hash", "flw-0f3b9a "}, ReasonMismatch},
		"twice":   {[]string{"verif-hash", "flw-0f3b9a", "verif-hash", "flw-0f3b9a"}, ReasonMalformed},
		"empty":   {[]string{"verif-hash", ""}, ReasonMissing},
		"none":    {nil, ReasonMissing},
	} {
		if v := p.Verify(Request{Header: headersOf(c.headers...)}, []Secret{{}, s}, noon); v.Reason != c.want || (v.Secret == "test") != (c.want == ReasonNone) {
			t.Errorf("%s: %+v, want %q", name, v, c.want)
		}
	}
	if v := p.Verify(signed(t, p, s, "", noon, nil), []Secret{s}, noon); v.Outcome != Valid {
		t.Errorf("%+v", v)
	}
	// A static credential never lies in a record.
	if names := p.SignatureHeaders(); len(names) != 0 {
		t.Errorf("stored: %q", names)
	}
	if err := p.CheckSecret(secretOf(t, "FLWSECK_TEST-abc-X")); err == nil || !strings.Contains(err.Error(), "API key") {
		t.Errorf("%v", err)
	}
	for _, c := range []struct {
		provider, body string
		want           Reading
	}{
		{"flutterwave", `{"event":"charge.completed","data":{"id":285959875,"tx_ref":"o","amount":1250.5,"currency":"NGN","status":"successful"}}`,
			Reading{ID: "charge.completed:285959875:successful", Type: "charge.completed", Trust: event.Hint, Order: "o", Payment: "285959875", Subject: "285959875", Fact: order.KindPaid, Amount: 125050, Currency: "NGN"}},
		// Completed is not paid.
		{"flutterwave", `{"event":"charge.completed","data":{"id":1,"tx_ref":"o","amount":2,"currency":"NGN","status":"failed"}}`,
			Reading{ID: "charge.completed:1:failed", Type: "charge.completed", Trust: event.Hint, Order: "o", Payment: "1", Subject: "1", Fact: order.KindFailed, Amount: 200, Currency: "NGN"}},
		{"flutterwave_v4", `{"webhook_id":"w","timestamp":1767225605000,"type":"charge.completed","data":{"id":"chg_1","amount":1250.5,"currency":"NGN","reference":"o","status":"succeeded"}}`,
			Reading{ID: "charge.completed:chg_1:succeeded", Type: "charge.completed", Time: time.Unix(1767225605, 0).UTC(), Trust: event.Signed, Order: "o", Payment: "chg_1", Subject: "chg_1", Fact: order.KindPaid, Amount: 125050, Currency: "NGN"}},
		{"flutterwave_v4", `{"type":"charge.completed","data":{"id":"chg_1","status":"new"}}`,
			Reading{ID: "charge.completed:chg_1:new", Type: "charge.completed", Trust: event.Signed, Payment: "chg_1", Subject: "chg_1"}},
	} {
		if r, err := builtinOf(t, c.provider).Read(headersOf(), []byte(c.body)); err != nil || r != c.want {
			t.Errorf("%s %s: %+v, %v\nwant %+v", c.provider, c.body, r, err, c.want)
		}
	}
}
