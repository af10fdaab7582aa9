package webhook

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// complete is a Complete's form; pairs replace fields, and "-" takes one out.
func complete(pairs ...string) []byte {
	form := url.Values{}
	for name, v := range map[string]string{"click_trans_id": "3219876543", "service_id": "24001", "click_paydoc_id": "3298765432", "merchant_trans_id": "ORD-3001",
		"merchant_prepare_id": "77001", "amount": "125050", "action": "1", "error": "0", "error_note": "Success", "sign_time": "2026-01-01 05:00:09"} {
		form.Set(name, v)
	}
	for i := 0; i < len(pairs); i += 2 {
		if form.Set(pairs[i], pairs[i+1]); pairs[i+1] == "-" {
			form.Del(pairs[i])
		}
	}
	return []byte(form.Encode())
}

func sealed(t testing.TB, p Provider, s Secret, body []byte) []byte {
	t.Helper()
	out, err := p.(Sealing).Seal(s, body)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestClickSignsItsFieldsAsTheyCame(t *testing.T) {
	p := builtinOf(t, "click")
	old, fresh := Secret{"old", []byte("click-key-1")}, Secret{"new", []byte("click-key-2")}
	good := string(sealed(t, p, old, complete()))
	prepare := string(sealed(t, p, old, complete("action", "0", "merchant_prepare_id", "-")))
	sign := func(body []byte) string { return string(sealed(t, p, old, body)) }
	_, digest, _ := strings.Cut(good, "sign_string=")
	digest, _, _ = strings.Cut(digest, "&")
	for name, c := range map[string]struct {
		body string
		want Reason
	}{
		"complete":                    {good, ReasonNone},
		"prepare":                     {prepare, ReasonNone},
		"decimals":                    {sign(complete("amount", "1000.00")), ReasonNone},
		"decimals taken away":         {strings.Replace(sign(complete("amount", "1000.00")), "1000.00", "1000", 1), ReasonMismatch},
		"another order":               {strings.Replace(good, "ORD-3001", "ORD-3002", 1), ReasonMismatch},
		"complete as prepare":         {strings.Replace(good, "action=1", "action=0", 1), ReasonMismatch},
		"a prepare id in a prepare":   {prepare + "&merchant_prepare_id=5", ReasonNone},
		"upper case digest":           {strings.Replace(good, digest, strings.ToUpper(digest), 1), ReasonMismatch},
		"short digest":                {strings.Replace(good, digest, digest[:31], 1), ReasonMalformed},
		"empty digest":                {strings.Replace(good, digest, "", 1), ReasonMissing},
		"no digest":                   {string(complete()), ReasonMissing},
		"a field twice":               {good + "&amount=125050", ReasonMalformed},
		"an unsigned field twice":     {good + "&error=0", ReasonMalformed},
		"no error":                    {sign(complete("error", "-")), ReasonMalformed},
		"no prepare id in a complete": {sign(complete("merchant_prepare_id", "-")), ReasonMalformed},
		"an unknown action":           {sign(complete("action", "5")), ReasonMalformed},
		"action 01":                   {sign(complete("action", "01")), ReasonMalformed},
		"JSON":                        {`{"a":1}`, ReasonMissing},
		"broken escapes":              {good + "&x=%zz", ReasonMalformed},
		"a semicolon":                 {good + ";x=1", ReasonMalformed},
		"nothing":                     {"", ReasonMissing},
	} {
		v := p.Verify(Request{Header: headersOf(), Body: []byte(c.body)}, []Secret{fresh, {}, old}, noon)
		if v.Reason != c.want || (v.Outcome == Valid) != (c.want == ReasonNone) || (v.Secret == "old") != (c.want == ReasonNone) {
			t.Errorf("%s: %+v, want %q", name, v, c.want)
		}
	}
	// O05: the digest that anybody can make.
	if v := p.Verify(Request{Header: headersOf(), Body: []byte(strings.Replace(good, digest, string(clickSum(mustForm(t, good), Secret{})), 1))}, []Secret{{}}, noon); v.Outcome != Invalid {
		t.Errorf("signed with an empty key: %+v", v)
	}
	if _, err := p.(Sealing).Seal(Secret{}, complete()); err == nil {
		t.Error("it signs without a secret")
	}
}

func mustForm(t *testing.T, body string) map[string]string {
	t.Helper()
	form, err := uniqueForm([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return form
}

func TestAClickSecretThatIsNoneIsRefused(t *testing.T) {
	p := builtinOf(t, "click")
	for value, says := range map[string]string{"24001": "number", "12:356a192b7913b04c54574d18c28d46e6395428ab:1767225605": "Auth header"} {
		if err := p.CheckSecret(secretOf(t, value)); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), value) {
			t.Errorf("%v", err)
		}
	}
	if err := p.CheckSecret(secretOf(t, "click-demo-key")); err != nil {
		t.Error(err)
	}
}

func TestAClickRequestIsRead(t *testing.T) {
	p := builtinOf(t, "click")
	at := time.Date(2026, 1, 1, 0, 0, 9, 0, time.UTC) // five hours before Tashkent's
	hint := func(kind order.Kind) Reading {
		return Reading{ID: "3219876543:1", Type: "complete", Time: at, Trust: event.Hint, Order: "ORD-3001", Subject: "3219876543",
			Fact: kind, Amount: 12505000, Currency: "UZS"}
	}
	for name, c := range map[string]struct {
		body []byte
		want Reading
	}{
		"paid":      {complete(), hint(order.KindPaid)},
		"failed":    {complete("error", "-1"), hint(order.KindFailed)},
		"cancelled": {complete("error", "-5017"), hint(order.KindCancelled)},
		// Neither may link the order to the unsigned payment id, or ask about another one.
		"prepared": {complete("action", "0", "merchant_prepare_id", "-"), Reading{ID: "3219876543:0", Type: "prepare", Time: at, Trust: event.Signed,
			Order: "ORD-3001", Subject: "3219876543", Fact: order.KindPending, Amount: 12505000, Currency: "UZS"}},
	} {
		if r, err := p.Read(headersOf(), c.body); err != nil || r != c.want {
			t.Errorf("%s: %+v, %v\nwant %+v", name, r, err, c.want)
		}
	}
	for name, body := range map[string][]byte{
		"no error":         complete("error", "-"),
		"an error above 0": complete("error", "1"),
		"error -0":         complete("error", "-0"),
		"half a tiyin":     complete("amount", "1.005"),
		"an exponent":      complete("amount", "1e3"),
		"nothing":          complete("amount", "0.00"),
		"below nothing":    complete("amount", "-5"),
		"no time":          complete("sign_time", "yesterday"),
		"no order":         complete("merchant_trans_id", ""),
		"a long id":        complete("click_trans_id", strings.Repeat("9", 254)),
		"broken text":      complete("merchant_trans_id", "\xff"),
	} {
		if r, err := p.Read(headersOf(), body); err == nil || r != (Reading{}) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestAClickFormSaysWhichErrorItsAnswerHas(t *testing.T) {
	p := builtinOf(t, "click").(Click)
	if _, err := p.Form(complete("action", "5")); !errors.Is(err, ErrClickAction) {
		t.Errorf("%v", err)
	}
	if _, err := p.Form(complete("sign_time", "-")); err == nil || errors.Is(err, ErrClickAction) {
		t.Errorf("%v", err)
	}
	// An amount that cannot be read is no order's amount: that is for the merchant to say.
	if f, err := p.Form(complete("amount", "12,5", "error", "-9")); err != nil || f.Amount != 0 || f.AmountText != "12,5" || f.Error != -9 {
		t.Errorf("%+v, %v", f, err)
	}
}

// The vector error_field_flipped_to_success_still_valid: a captured cancel with
// error=0 in its place. What catches it is that a Complete is only a hint: nothing is
// applied until Click's own payment status was asked.
func TestAClickErrorTurnedIntoSuccessIsNotBelieved(t *testing.T) {
	p, s := builtinOf(t, "click"), secretOf(t, "click-key-1")
	body := strings.Replace(string(sealed(t, p, s, complete("error", "-5017"))), "error=-5017", "error=0", 1)
	if v := p.Verify(Request{Header: headersOf(), Body: []byte(body)}, []Secret{s}, noon); v.Outcome != Valid {
		t.Fatalf("%+v", v)
	}
	if r, err := p.Read(headersOf(), []byte(body)); err != nil || r.Fact != order.KindPaid || r.Trust != event.Hint {
		t.Errorf("%+v, %v", r, err)
	}
	if f := p.Profile(); f.Trust != event.Hint || !strings.Contains(f.Leaves, "error") {
		t.Errorf("%+v", f)
	}
}

// The vector digit_shift_between_fields_still_valid: a digit of the prepare id moves
// into the amount. What catches it is that the form gives the merchant each field as
// it now is, to compare with what it stored: neither is the stored one any more.
func TestADigitThatMovesBetweenClickFieldsIsSeen(t *testing.T) {
	p, s := builtinOf(t, "click").(Click), secretOf(t, "click-key-1")
	form := mustForm(t, string(sealed(t, p, s, complete())))
	shifted := complete("merchant_prepare_id", "7700", "amount", "1125050", "sign_string", form["sign_string"])
	if v := p.Verify(Request{Header: headersOf(), Body: shifted}, []Secret{s}, noon); v.Outcome != Valid {
		t.Fatalf("%+v", v)
	}
	if f, err := p.Form(shifted); err != nil || f.PrepareID != "7700" || f.Amount != 112505000 {
		t.Errorf("%+v, %v", f, err)
	}
}
