package webhook

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

const adyenTestKey = "9064450A8892A093D9E97EFCC9639DE31B74F3A7803135555A3C96F5A57915D7"

// adyenItemOf is an item without its signature; pairs replace or add fields, as JSON.
func adyenItemOf(pairs ...string) string {
	fields := [][2]string{
		{"pspReference", `"PSP1"`}, {"merchantAccountCode", `"ShopECOM"`}, {"merchantReference", `"ord_b1"`},
		{"amount", `{"value":1000,"currency":"EUR"}`}, {"eventCode", `"AUTHORISATION"`}, {"success", `"true"`}, {"eventDate", `"2026-01-01T01:00:05+01:00"`},
	}
next:
	for i := 0; i < len(pairs); i += 2 {
		for j := range fields {
			if fields[j][0] == pairs[i] {
				fields[j][1] = pairs[i+1]
				continue next
			}
		}
		fields = append(fields, [2]string{pairs[i], pairs[i+1]})
	}
	parts := make([]string, len(fields))
	for i, f := range fields {
		parts[i] = fmt.Sprintf("%q:%s", f[0], f[1])
	}
	return `{"NotificationRequestItem":{` + strings.Join(parts, ",") + `}}`
}

func adyenBatchOf(items ...string) []byte {
	return []byte(`{"live":"true","notificationItems":[` + strings.Join(items, ",") + `]}`)
}

func sealedBy(t testing.TB, p Provider, s Secret, body []byte) []byte {
	t.Helper()
	b, err := p.(Sealing).Seal(s, body)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// signatureOf is an item's, as JSON.
func signatureOf(t testing.TB, batch []byte) string {
	t.Helper()
	_, items, err := adyenItems(batch)
	if err != nil || len(items) == 0 {
		t.Fatal(err)
	}
	values, err := adyenItem.scan(items[0])
	if err != nil {
		t.Fatal(err)
	}
	return string(values[adyenSigned].raw)
}

// O08: every item is verified, and one that is wrong refuses the request.
func TestAdyenVerifiesEveryItemOfABatch(t *testing.T) {
	p, s := builtinOf(t, "adyen"), secretOf(t, adyenTestKey)
	a := adyenItemOf()
	b := func(pairs ...string) string {
		return adyenItemOf(append([]string{"pspReference", `"PSP2"`, "merchantReference", `"ord_b2"`, "amount", `{"value":1,"currency":"EUR"}`}, pairs...)...)
	}
	own := signatureOf(t, sealedBy(t, p, s, adyenBatchOf(a)))
	signedA := adyenItemOf("additionalData", `{"hmacSignature":`+own+`}`)
	whole := string(sealedBy(t, p, s, adyenBatchOf(a, b())))
	for name, c := range map[string]struct {
		body   string
		reason Reason
	}{
		"both right":                {whole, ReasonNone},
		"B with A's signature":      {string(adyenBatchOf(signedA, b("additionalData", `{"hmacSignature":`+own+`}`))), ReasonMismatch},
		"B first":                   {string(adyenBatchOf(b("additionalData", `{"hmacSignature":`+own+`}`), signedA)), ReasonMismatch},
		"B without additionalData":  {string(adyenBatchOf(signedA, b())), ReasonMissing},
		"B with an empty signature": {string(adyenBatchOf(signedA, b("additionalData", `{"hmacSignature":""}`))), ReasonMissing},
		"B with no text for one":    {string(adyenBatchOf(signedA, b("additionalData", `{"hmacSignature":7}`))), ReasonMalformed},
		"B is null":                 {string(adyenBatchOf(signedA, "null")), ReasonMalformed},
		"B twice in itself":         {string(adyenBatchOf(signedA, b("additionalData", `{"hmacSignature":`+own+`},"additionalData":{}`))), ReasonMalformed},
		"no items":                  {`{"live":"true","notificationItems":[]}`, ReasonEmpty},
		"items are null":            {`{"live":"true","notificationItems":null}`, ReasonEmpty},
		"nothing called items":      {`{"live":"true"}`, ReasonEmpty},
		"items are an object":       {`{"notificationItems":{}}`, ReasonMalformed},
		"two lists":                 {strings.Replace(whole, `{"live"`, `{"notificationItems":[],"live"`, 1), ReasonMalformed},
		"no JSON":                   {whole + "]", ReasonMalformed},
	} {
		v := p.Verify(Request{Header: headersOf(), Body: []byte(c.body)}, []Secret{s}, noon)
		if (v.Outcome == Valid) != (c.reason == ReasonNone) || v.Reason != c.reason {
			t.Errorf("%s: %+v, want %q", name, v, c.reason)
		}
	}
}

// O08: six items, the third a copy of the first, are six records of five events, and
// each verifies by itself.
func TestAdyenSplitsABatchIntoRequestsThatVerify(t *testing.T) {
	p, s := builtinOf(t, "adyen"), secretOf(t, adyenTestKey)
	other := secretOf(t, strings.Repeat("ab", 32))
	var items []string
	for _, n := range []int{1, 2, 1, 3, 4, 5} {
		items = append(items, adyenItemOf("pspReference", fmt.Sprintf(`"PSP%d"`, n)))
	}
	whole := sealedBy(t, p, s, adyenBatchOf(items...))
	bodies, err := p.(Batched).Split(whole)
	if err != nil || len(bodies) != 6 {
		t.Fatalf("%d bodies, %v", len(bodies), err)
	}
	if !bytes.Equal(bodies[0], bodies[2]) {
		t.Error("the copy differs from what it is a copy of")
	}
	ids := map[string]bool{}
	for i, body := range bodies {
		if v := p.Verify(Request{Header: headersOf(), Body: body}, []Secret{other, s}, noon); v.Outcome != Valid || v.Secret != "test" {
			t.Errorf("body %d: %+v", i, v)
		}
		r, err := p.Read(headersOf(), body)
		if err != nil || r.Mode != event.Live {
			t.Errorf("body %d: %+v, %v", i, r, err)
		}
		ids[r.ID] = true
		again, err := p.(Batched).Split(body)
		if err != nil || len(again) != 1 || !bytes.Equal(again[0], body) {
			t.Errorf("body %d is split once more into other bytes: %v", i, err)
		}
	}
	if len(ids) != 5 {
		t.Errorf("%d events: %v", len(ids), ids)
	}
	if _, err := p.Read(headersOf(), whole); err == nil {
		t.Error("a batch was read as one event")
	}
	if a := p.(Answering).Answer(headersOf(), whole); string(a.Body) != "[accepted]" {
		t.Errorf("answered %q", a.Body)
	}
}

// The fields are joined without escapes, so text can move between neighbours and the
// signature still holds. It must verify, as with every SDK, and must not be read.
func TestAdyenIsNotReadWhereTheSignedFieldsRunIntoEachOther(t *testing.T) {
	p, s := builtinOf(t, "adyen"), secretOf(t, adyenTestKey)
	honest := sealedBy(t, p, s, adyenBatchOf(adyenItemOf("originalReference", `"ORIG"`, "merchantReference", `"a:b"`)))
	if r, err := p.Read(headersOf(), honest); err != nil || r.Order != "a:b" {
		t.Fatalf("%+v, %v", r, err)
	}
	signature := `{"hmacSignature":` + signatureOf(t, honest) + `}`
	for name, moved := range map[string][]string{
		"into the account":           {"originalReference", `"ORIG"`, "merchantAccountCode", `"ShopECOM:a"`, "merchantReference", `"b"`},
		"into the original":          {"originalReference", `"ORIG:ShopECOM"`, "merchantAccountCode", `"a"`, "merchantReference", `"b"`},
		"into the payment":           {"pspReference", `"PSP1:ORIG"`, "originalReference", `"ShopECOM"`, "merchantAccountCode", `"a"`, "merchantReference", `"b"`},
		"the amount from the event":  {"originalReference", `"ORIG"`, "merchantReference", `"a"`, "amount", `{"value":"b","currency":"1000:EUR"}`},
		"the success from the event": {"originalReference", `"ORIG"`, "merchantReference", `"a"`, "amount", `{"value":"b","currency":"1000"}`, "eventCode", `"EUR"`, "success", `"AUTHORISATION:true"`},
	} {
		body := adyenBatchOf(adyenItemOf(append(moved, "additionalData", signature)...))
		if v := p.Verify(Request{Header: headersOf(), Body: body}, []Secret{s}, noon); v.Outcome != Valid {
			t.Errorf("%s: %+v: the joined text is the same", name, v)
		}
		if r, err := p.Read(headersOf(), body); err == nil {
			t.Errorf("%s: read as %+v", name, r)
		}
	}
}

func TestAdyenReadsWhatAnItemStates(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 5, 0, time.UTC)
	of := func(code, success string, kind order.Kind, pairs ...string) (string, Reading) {
		item := adyenItemOf(append([]string{"eventCode", `"` + code + `"`, "success", success, "pspReference", `"MOD1"`, "originalReference", `"PSP1"`}, pairs...)...)
		r := Reading{ID: "MOD1:" + code + ":" + strings.Trim(success, `"`), Type: code, Time: at, Mode: event.Live, Trust: event.Signed,
			Order: "ord_b1", Payment: "PSP1", Subject: "PSP1", Fact: kind, Amount: 1000, Currency: "EUR"}
		switch kind {
		case order.KindRefund, order.KindRefundFailed, order.KindDisputeOpened, order.KindDisputeWon, order.KindDisputeLost:
			r.Object = "MOD1"
		}
		return item, r
	}
	p := builtinOf(t, "adyen")
	for _, c := range []struct {
		code, success string
		kind          order.Kind
	}{
		{"CAPTURE", `"true"`, order.KindPaid}, {"CAPTURE", `"false"`, order.KindNone}, {"CAPTURE", `true`, order.KindPaid},
		{"CAPTURE_FAILED", `"true"`, order.KindFailed},
		{"CANCELLATION", `"true"`, order.KindCancelled}, {"CANCELLATION", `"false"`, order.KindNone},
		{"TECHNICAL_CANCEL", `"true"`, order.KindCancelled}, {"EXPIRE", `"true"`, order.KindCancelled}, {"CANCEL_OR_REFUND", `"true"`, order.KindCancelled},
		{"REFUND", `"true"`, order.KindRefund}, {"REFUND", `"false"`, order.KindNone},
		{"REFUND_FAILED", `"true"`, order.KindRefundFailed}, {"REFUNDED_REVERSED", `"true"`, order.KindRefundFailed},
		{"NOTIFICATION_OF_CHARGEBACK", `"true"`, order.KindDisputeOpened}, {"CHARGEBACK", `"true"`, order.KindDisputeOpened},
		{"CHARGEBACK_REVERSED", `"true"`, order.KindDisputeWon}, {"SECOND_CHARGEBACK", `"true"`, order.KindDisputeLost},
		{"REPORT_AVAILABLE", `"true"`, order.KindNone}, {"SOMETHING_NEW", `"false"`, order.KindNone},
	} {
		item, want := of(c.code, c.success, c.kind)
		if r, err := p.Read(headersOf(), adyenBatchOf(item)); err != nil || r != want {
			t.Errorf("%s %s:\n%+v, %v\nwant %+v", c.code, c.success, r, err, want)
		}
	}
	for name, item := range map[string]string{
		"no success":          adyenItemOf("success", "null"),
		"no psp reference":    adyenItemOf("pspReference", `""`),
		"a broken amount":     adyenItemOf("amount", `{"value":10.5,"currency":"EUR"}`),
		"an unknown currency": adyenItemOf("amount", `{"value":10,"currency":"ZZZ"}`),
		"no currency":         adyenItemOf("amount", `{"value":10}`),
		"an id too long":      adyenItemOf("pspReference", `"`+strings.Repeat("p", 250)+`"`),
	} {
		if r, err := p.Read(headersOf(), adyenBatchOf(item)); err == nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
	// O18: four currencies are counted otherwise than by ISO 4217.
	for currency, want := range map[string]int64{"JPY": 1000, "ISK": 10, "CLP": 10, "IDR": 100000, "CVE": 100000, "EUR": 1000} {
		r, err := p.Read(headersOf(), adyenBatchOf(adyenItemOf("amount", `{"value":1000,"currency":"`+currency+`"}`)))
		if err != nil || r.Amount != want {
			t.Errorf("%s: %d, %v, want %d", currency, r.Amount, err, want)
		}
	}
}

func TestAnAuthorisationIsPaidOnlyWhereItCapturesAtOnce(t *testing.T) {
	for name, want := range map[string]order.Kind{"adyen": order.KindPaid, "adyen_manual_capture": order.KindPending} {
		p := builtinOf(t, name)
		for success, kind := range map[string]order.Kind{`"true"`: want, `"false"`: order.KindFailed, `"maybe"`: order.KindNone} {
			r, err := p.Read(headersOf(), adyenBatchOf(adyenItemOf("success", success)))
			if err != nil || r.Fact != kind || r.Payment != "PSP1" {
				t.Errorf("%s, success %s: %+v, %v", name, success, r, err)
			}
		}
		r, err := p.Read(headersOf(), adyenBatchOf(adyenItemOf("eventCode", `"CAPTURE"`, "pspReference", `"CAP1"`, "originalReference", `"PSP1"`)))
		if err != nil || r.Fact != order.KindPaid || r.Payment != "PSP1" {
			t.Errorf("%s, capture: %+v, %v", name, r, err)
		}
	}
}

// eventDate and live are unsigned: the first leads no key, the second moves an event
// out of this world's books at most.
func TestAdyenTimeAndModeAreNotSigned(t *testing.T) {
	p, s := builtinOf(t, "adyen"), secretOf(t, adyenTestKey)
	body := sealedBy(t, p, s, adyenBatchOf(adyenItemOf()))
	changed := bytes.Replace(bytes.Replace(body, []byte("2026-01-01"), []byte("2030-01-01"), 1), []byte(`"true","notif`), []byte(`"false","notif`), 1)
	if bytes.Equal(changed, body) {
		t.Fatal("nothing was changed")
	}
	if v := p.Verify(Request{Header: headersOf(), Body: changed}, []Secret{s}, noon); v.Outcome != Valid {
		t.Errorf("%+v", v)
	}
	if p.TimeRepeats() {
		t.Error("an unsigned time leads the key")
	}
	if r, err := p.Read(headersOf(), changed); err != nil || r.Mode != event.Test {
		t.Errorf("%+v, %v", r, err)
	}
}
