package webhook

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"strings"
	"testing"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// sealing are the providers that sign within the body, each with a body to sign, a
// signed part of it, and what it may become.
var sealing = map[string]struct{ secret, other, body, from, to string }{
	"click":     {"click-key-1", "click-key-2", string(complete()), "amount=125050", "amount=1"},
	"midtrans":  {"SB-Mid-server-1", "SB-Mid-server-2", `{"order_id":"o","status_code":"200","gross_amount":"1.00","transaction_status":"settlement"}`, `"1.00"`, `"9.00"`},
	"tbank":     {"pw-0f3b9a", "pw-77aa01", `{"TerminalKey":"1","OrderId":"o","Success":true,"Status":"CONFIRMED","PaymentId":7,"Amount":100}`, `:100`, `:900`},
	"braintree": {"pub1:priv1", "pub2:priv2", "<notification><kind>check</kind></notification>\n", "PG5vd", "PG5ve"},
}

func TestASealedBodyVerifiesWithItsSecretAlone(t *testing.T) {
	for name, c := range sealing {
		p, s, other := builtinOf(t, name), Secret{"mine", []byte(c.secret)}, Secret{"other", []byte(c.other)}
		if err := p.CheckSecret(s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		body := sealed(t, p, s, []byte(c.body))
		headers, err := p.Sign(s, "", noon, body)
		if err != nil || len(headers) != 0 {
			t.Errorf("%s signs in headers too: %v, %v", name, headers, err)
		}
		verify := func(body []byte, secrets ...Secret) Verdict {
			return p.Verify(Request{Header: headersOf(), Body: body}, secrets, noon)
		}
		if v := verify(body, other, Secret{}, s); v.Outcome != Valid || v.Secret != "mine" {
			t.Errorf("%s: %+v", name, v)
		}
		if v := verify(body, other, Secret{}); v.Outcome != Invalid || v.Reason != ReasonMismatch {
			t.Errorf("%s with another secret: %+v", name, v)
		}
		changed := strings.Replace(string(body), c.from, c.to, 1)
		if v := verify([]byte(changed), s); changed == string(body) || v.Reason != ReasonMismatch {
			t.Errorf("%s changed to %s: %+v", name, changed, v)
		}
		if v := verify([]byte(c.body), s); v.Outcome != Invalid {
			t.Errorf("%s unsigned: %+v", name, v)
		}
		for _, secret := range []Secret{{}, {"empty", []byte("")}} {
			if _, err := p.(Sealing).Seal(secret, []byte(c.body)); err == nil {
				t.Errorf("%s signs without a secret", name)
			}
		}
	}
}

func TestMidtransSignsItsFieldsAsTheyCame(t *testing.T) {
	p, s := builtinOf(t, "midtrans"), secretOf(t, "SB-Mid-server-1")
	body := string(sealed(t, p, s, []byte(sealing["midtrans"].body)))
	_, key, _ := strings.Cut(body, `"signature_key":"`)
	key = strings.TrimSuffix(key, `"}`)
	for name, c := range map[string]struct {
		body string
		want Reason
	}{
		"the status is not signed":    {strings.Replace(body, "settlement", "deny", 1), ReasonNone},
		"written in another way":      {strings.Replace(body, `"1.00"`, `"1.0"`, 1), ReasonMismatch},
		"a number of the same digits": {strings.Replace(body, `"1.00"`, `1.00`, 1), ReasonNone},
		"another status code":         {strings.Replace(body, `"200"`, `"201"`, 1), ReasonMismatch},
		"no amount":                   {strings.Replace(body, `"gross_amount"`, `"amount"`, 1), ReasonMissing},
		"an amount of null":           {strings.Replace(body, `"1.00"`, `null`, 1), ReasonMissing},
		"an object for an amount":     {strings.Replace(body, `"1.00"`, `{}`, 1), ReasonMalformed},
		"short":                       {strings.Replace(body, key, key[:126], 1), ReasonMalformed},
		"no hex":                      {strings.Replace(body, key, strings.Repeat("z", 128), 1), ReasonMalformed},
		"a number":                    {strings.Replace(body, `"`+key+`"`, "5", 1), ReasonMalformed},
		"a key twice":                 {strings.Replace(body, `{`, `{"order_id":"o",`, 1), ReasonMalformed}, // O14
		"a signature twice":           {strings.Replace(body, `{`, `{"signature_key":"x",`, 1), ReasonMalformed},
		"no JSON":                     {"order_id=o", ReasonMalformed},
	} {
		if v := p.Verify(Request{Header: headersOf(), Body: []byte(c.body)}, []Secret{s}, noon); v.Reason != c.want {
			t.Errorf("%s: %+v, want %q", name, v, c.want)
		}
	}
	if err := p.CheckSecret(secretOf(t, "SB-Mid-client-abc")); err == nil || !strings.Contains(err.Error(), "client key") {
		t.Errorf("%v", err)
	}
}

func TestAMidtransNotificationIsRead(t *testing.T) {
	p := builtinOf(t, "midtrans")
	for more, want := range map[string]Reading{
		`"transaction_status":"capture","fraud_status":"accept"`:    {ID: "t:capture:accept", Fact: order.KindPaid, Amount: 12505000},
		`"transaction_status":"capture","fraud_status":"challenge"`: {ID: "t:capture:challenge", Fact: order.KindPending, Amount: 12505000},
		`"transaction_status":"capture","fraud_status":"deny"`:      {ID: "t:capture:deny", Fact: order.KindFailed, Amount: 12505000},
		`"transaction_status":"settlement"`:                         {ID: "t:settlement", Fact: order.KindPaid, Amount: 12505000},
		`"transaction_status":"expire"`:                             {ID: "t:expire", Fact: order.KindCancelled, Amount: 12505000},
		`"transaction_status":"deny"`:                               {ID: "t:deny", Fact: order.KindFailed, Amount: 12505000},
		// Refunds are stated as their total so far, and each total is an event.
		`"transaction_status":"partial_refund","refund_amount":"50.00"`: {ID: "t:partial_refund:50.00", Fact: order.KindRefundTotal, Amount: 5000},
	} {
		_, typ, _ := strings.Cut(want.ID, ":")
		typ, _, _ = strings.Cut(typ, ":")
		want.Type, want.Order, want.Payment, want.Subject, want.Currency, want.PaymentAmount = typ, "o", "t", "t", "IDR", 12505000
		want.Trust, want.Time = event.Hint, time.Date(2026, 1, 1, 0, 0, 5, 0, time.UTC) // Jakarta is seven hours ahead
		r, err := p.Read(headersOf(), []byte(`{"order_id":"o","transaction_id":"t","gross_amount":"125050.00","transaction_time":"2026-01-01 07:00:05",`+more+`}`))
		if err != nil || r != want {
			t.Errorf("%s: %+v, %v\nwant %+v", more, r, err, want)
		}
	}
}

func TestTBankSignsTheValuesOfItsRootObject(t *testing.T) {
	p, s := builtinOf(t, "tbank"), secretOf(t, "pw-0f3b9a")
	sign := func(body string) string { return string(sealed(t, p, s, []byte(body))) }
	body := sign(sealing["tbank"].body)
	_, token, _ := strings.Cut(body, `"Token":"`)
	token = strings.TrimSuffix(token, `"}`)
	for name, c := range map[string]struct {
		body string
		want Reason
	}{
		"in another order":        {`{"Token":"` + token + `",` + strings.TrimPrefix(sealing["tbank"].body, "{"), ReasonNone},
		"with white space":        {" \n" + strings.ReplaceAll(body, ",", " ,\n") + "\n", ReasonNone},
		"objects are not signed":  {strings.Replace(body, "{", `{"Data":{"Amount":1},"Items":[1],"N":null,`, 1), ReasonNone},
		"a value put in":          {strings.Replace(body, "{", `{"A":"1",`, 1), ReasonMismatch},
		"a value taken out":       {strings.Replace(body, `"Success":true,`, ``, 1), ReasonMismatch},
		"true is text":            {strings.Replace(body, `true`, `"true"`, 1), ReasonNone},
		"false for true":          {strings.Replace(body, `true`, `false`, 1), ReasonMismatch},
		"a number in another way": {strings.Replace(body, `:100`, `:100.0`, 1), ReasonMismatch},
		"upper case":              {strings.Replace(body, token, strings.ToUpper(token), 1), ReasonNone},
		"short":                   {strings.Replace(body, token, token[:62], 1), ReasonMalformed},
		"no token":                {sealing["tbank"].body, ReasonMissing},
		"a token of null":         {strings.Replace(body, `"`+token+`"`, `null`, 1), ReasonMissing},
		"a password in the body":  {strings.Replace(body, "{", `{"Password":"pw-0f3b9a",`, 1), ReasonMalformed},
		"a key twice":             {strings.Replace(body, "{", `{"Amount":1,`, 1), ReasonMalformed}, // O14
		"a token twice":           {strings.Replace(body, "{", `{"Token":"x",`, 1), ReasonMalformed},
		"an array":                {"[" + body + "]", ReasonMalformed},
		"more behind it":          {body + "{}", ReasonMalformed},
		"cut off":                 {body[:len(body)-1], ReasonMalformed},
		"nothing":                 {"", ReasonMalformed},
		"an empty object":         {"{}", ReasonMissing},
	} {
		if v := p.Verify(Request{Header: headersOf(), Body: []byte(c.body)}, []Secret{s}, noon); v.Reason != c.want {
			t.Errorf("%s: %+v, want %q", name, v, c.want)
		}
	}
	// The documentation's own token: the password stands among the values by its name.
	docs := `{"TerminalKey":"1321054611234DEMO","OrderId":"201709","Success":true,"Status":"AUTHORIZED","PaymentId":8742591,"ErrorCode":"0","Amount":9855,"CardId":322264,` +
		`"Pan":"430000******0777","ExpDate":"1122","RebillId":101709,"Token":"b906d28e76c6428e37b25fcf86c0adc52c63d503013fdd632e300593d165766b"}`
	if v := p.Verify(Request{Header: headersOf(), Body: []byte(docs)}, []Secret{VectorSecret("docs", "Dfsfh56dgKl")}, noon); v.Outcome != Valid {
		t.Errorf("the documentation's example: %+v", v)
	}
	// At either end, too.
	for _, body := range []string{`{"Zebra":"z"}`, `{"A":"a"}`, `{"Passwora":"a","Passwore":"b"}`} {
		if v := p.Verify(Request{Header: headersOf(), Body: []byte(sign(body))}, []Secret{s}, noon); v.Outcome != Valid {
			t.Errorf("%s: %+v", body, v)
		}
	}
	if a := p.(Answering).Answer(headersOf(), nil); string(a.Body) != "OK" || !strings.HasPrefix(a.ContentType, "text/plain") {
		t.Errorf("answer %+v", a)
	}
	for _, value := range []string{"1321054611234DEMO", "1321054611234"} {
		if err := p.CheckSecret(secretOf(t, value)); err == nil || !strings.Contains(err.Error(), "TerminalKey") || strings.Contains(err.Error(), value) {
			t.Errorf("%v", err)
		}
	}
}

func TestATBankNotificationIsReadOfSignedValuesAlone(t *testing.T) {
	p := builtinOf(t, "tbank")
	for status, c := range map[string]struct {
		kind   order.Kind
		extent Extent
	}{
		"AUTHORIZED": {order.KindPending, ExtentUnknown}, "CONFIRMED": {order.KindPaid, ExtentUnknown}, "REJECTED": {order.KindFailed, ExtentUnknown},
		"REVERSED": {order.KindCancelled, ExtentUnknown}, "CANCELED": {order.KindCancelled, ExtentUnknown}, "DEADLINE_EXPIRED": {order.KindCancelled, ExtentUnknown},
		"PARTIAL_REFUNDED": {order.KindRefund, Partial}, "REFUNDED": {order.KindRefundTotal, Full}, "NEW": {order.KindNone, ExtentUnknown},
	} {
		want := Reading{ID: "8742591:" + status + ":9855", Type: status, Trust: event.Signed, Order: "201709", Payment: "8742591", Subject: "8742591", Fact: c.kind, Extent: c.extent, Amount: 9855, Currency: "RUB"}
		switch c.kind {
		case order.KindRefund:
			want.Object = want.ID
		case order.KindRefundTotal:
			want.PaymentAmount = 9855
		}
		r, err := p.Read(headersOf(), []byte(`{"OrderId":"201709","Success":true,"Status":"`+status+`","PaymentId":8742591,"Amount":9855,"Data":{"OrderId":"x"}}`))
		if err != nil || r != want {
			t.Errorf("%s: %+v, %v\nwant %+v", status, r, err, want)
		}
	}
	r, err := p.Read(headersOf(), []byte(`{"OrderId":"201709","Success":false,"Status":"CONFIRMED","PaymentId":8742591,"Amount":9855}`))
	if err != nil || r.Fact != order.KindNone {
		t.Errorf("confirmed without success: %+v, %v", r, err)
	}
}

const braintreeSale = `<notification>
  <timestamp type="datetime">2026-11-30T15:13:13Z</timestamp><kind>transaction_settled</kind>
  <subject><transaction><id>txn_1</id><type>sale</type><currency-iso-code>USD</currency-iso-code><amount>100.5</amount><order-id>o &amp; p</order-id></transaction></subject>
</notification>
`

func TestBraintreeWantsOurKeysSignature(t *testing.T) {
	p, s := builtinOf(t, "braintree"), Secret{"mine", []byte("open_public:open_private")}
	form := sealed(t, p, s, []byte(braintreeSale))
	values, _ := url.ParseQuery(string(form))
	signature, payload := values.Get("bt_signature"), values.Get("bt_payload")
	hexOf := strings.TrimPrefix(signature, "open_public|")
	for name, c := range map[string]struct {
		signature, payload string
		want               Reason
	}{
		"right":                          {signature, payload, ReasonNone},
		"without the last line end":      {signature, strings.TrimSuffix(payload, "\n"), ReasonNone},
		"one of several":                 {"other|deadbeef&" + signature, payload, ReasonNone},
		"another public key":             {"other|" + hexOf, payload, ReasonMismatch},
		"no public key":                  {hexOf, payload, ReasonMismatch},
		"a prefix of the public key":     {"open_pub|" + hexOf, payload, ReasonMismatch},
		"short":                          {signature[:len(signature)-2], payload, ReasonMismatch},
		"another payload":                {signature, "A" + payload[1:], ReasonMismatch},
		"two line ends":                  {signature, payload + "\n", ReasonMismatch},
		"no base64":                      {signature, "!" + payload, ReasonMalformed},
		"a space":                        {signature, payload + " ", ReasonMalformed},
		"too many":                       {strings.Repeat("a|b&", 17) + signature, payload, ReasonMalformed},
		"no signature":                   {"", payload, ReasonMissing},
		"no payload":                     {signature, "", ReasonMissing},
		"signed with the private key as": {"open_public|" + plainSHA1("open_private", payload), payload, ReasonMismatch},
	} {
		body := url.Values{"bt_signature": {c.signature}, "bt_payload": {c.payload}}.Encode()
		v := p.Verify(Request{Header: headersOf(), Body: []byte(body)}, []Secret{{"other", []byte("p:q")}, {"broken", []byte("open_public")}, s}, noon)
		if v.Reason != c.want || (v.Secret == "mine") != (c.want == ReasonNone) {
			t.Errorf("%s: %+v, want %q", name, v, c.want)
		}
	}
	if v := p.Verify(Request{Header: headersOf(), Body: append(form, "&bt_payload=x"...)}, []Secret{s}, noon); v.Reason != ReasonMalformed {
		t.Errorf("a payload twice: %+v", v)
	}
	for _, value := range []string{"open_private", ":x1y2z3", "open_public:", "a|b:c0d1e2"} {
		if err := p.CheckSecret(secretOf(t, value)); err == nil || !strings.Contains(err.Error(), "PUBLIC_KEY:PRIVATE_KEY") || strings.Contains(err.Error(), value) {
			t.Errorf("%q: %v", value, err)
		}
	}
}

func plainSHA1(key, text string) string {
	mac := hmac.New(sha1.New, []byte(key))
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}

func TestBraintreesChallengeIsAnswered(t *testing.T) {
	p := builtinOf(t, "braintree").(Challenging)
	s := Secret{"mine", []byte("open_public:open_private")}
	key := sha1.Sum([]byte("open_private"))
	const challenge = "20f9f8ed05f77439fe955c977e4c8a53"
	a, ok := p.Challenge("bt_challenge="+challenge, []Secret{s})
	if want := "open_public|" + plainSHA1(string(key[:]), challenge); !ok || string(a.Body) != want {
		t.Errorf("%q, %v", a.Body, ok)
	}
	if string(s.value) != "open_public:open_private" {
		t.Errorf("the answer wrote over the secret: %q", s.value)
	}
	for _, query := range []string{"", "x=1", "bt_challenge=", "bt_challenge=abc", "bt_challenge=" + strings.Repeat("a", 33), "bt_challenge=" + strings.Repeat("g", 32),
		"bt_challenge=" + challenge + "&bt_challenge=" + challenge, "bt_challenge=%zz"} {
		if a, ok := p.Challenge(query, []Secret{s}); ok {
			t.Errorf("%s: %q", query, a.Body)
		}
	}
	if _, ok := p.Challenge("bt_challenge="+challenge, nil); ok {
		t.Error("answered without a secret")
	}
}

func TestABraintreeNotificationIsRead(t *testing.T) {
	p := builtinOf(t, "braintree")
	form := func(doc string) []byte {
		return []byte(url.Values{"bt_signature": {"x"}, "bt_payload": {base64.StdEncoding.EncodeToString([]byte(doc)) + "\n"}}.Encode())
	}
	at := time.Date(2026, 11, 30, 15, 13, 13, 0, time.UTC)
	const ending = "2026-11-30T15%3A13%3A13Z"
	dispute := func(kind string) string {
		return `<notification><timestamp>2026-11-30T15:13:13Z</timestamp><kind>` + kind + `</kind><subject><dispute><id>d</id><amount>7.00</amount><currency-iso-code>EUR</currency-iso-code>` +
			`<transaction><id>t</id><order-id>o</order-id></transaction></dispute></subject></notification>`
	}
	for doc, want := range map[string]Reading{
		braintreeSale: {ID: "transaction_settled:txn_1:" + ending, Type: "transaction_settled", Order: "o & p", Payment: "txn_1", Subject: "txn_1", Fact: order.KindPaid, Amount: 10050, Currency: "USD"},
		strings.Replace(strings.Replace(braintreeSale, "sale", "credit", 1), "<type>", "<refunded-transaction-id>txn_0</refunded-transaction-id><type>", 1): {ID: "transaction_settled:txn_1:" + ending,
			Type: "transaction_settled", Order: "o & p", Payment: "txn_0", Object: "txn_1", Subject: "txn_1", Fact: order.KindRefund, Amount: 10050, Currency: "USD"},
		strings.Replace(braintreeSale, "transaction_settled", "transaction_settlement_declined", 1): {ID: "transaction_settlement_declined:txn_1:" + ending, Type: "transaction_settlement_declined",
			Order: "o & p", Payment: "txn_1", Subject: "txn_1", Fact: order.KindFailed, Amount: 10050, Currency: "USD"},
		dispute("dispute_opened"): {ID: "dispute_opened:d:" + ending, Type: "dispute_opened", Order: "o", Payment: "t", Object: "d", Subject: "d", Fact: order.KindDisputeOpened, Amount: 700, Currency: "EUR"},
		dispute("dispute_lost"):   {ID: "dispute_lost:d:" + ending, Type: "dispute_lost", Order: "o", Payment: "t", Object: "d", Subject: "d", Fact: order.KindDisputeLost, Amount: 700, Currency: "EUR"},
		dispute("dispute_won"):    {ID: "dispute_won:d:" + ending, Type: "dispute_won", Order: "o", Payment: "t", Object: "d", Subject: "d", Fact: order.KindDisputeWon, Amount: 700, Currency: "EUR"},
		`<?xml version="1.0"?><!-- a --><notification><kind>check</kind><timestamp>2026-11-30T15:13:13Z</timestamp><subject><check>true</check></subject></notification>`: {ID: "check:" + ending, Type: "check"},
	} {
		want.Trust, want.Time = event.Signed, at
		if r, err := p.Read(headersOf(), form(doc)); err != nil || r != want {
			t.Errorf("%s: %+v, %v\nwant %+v", doc, r, err, want)
		}
	}
	for name, doc := range map[string]string{
		"a kind twice":       strings.Replace(braintreeSale, "<kind>", "<kind>check</kind><kind>", 1),
		"a subject twice":    strings.Replace(braintreeSale, "<subject>", "<subject></subject><subject>", 1),
		"two roots":          braintreeSale + braintreeSale,
		"text beside it":     braintreeSale + "x",
		"an entity":          `<!DOCTYPE n [<!ENTITY a "x">]>` + strings.Replace(braintreeSale, "txn_1", "&a;", 1),
		"an unknown entity":  strings.Replace(braintreeSale, "txn_1", "&a;", 1),
		"a namespace":        strings.Replace(braintreeSale, "<notification>", `<notification xmlns="x">`, 1),
		"cut off":            braintreeSale[:len(braintreeSale)-4],
		"an open element":    strings.Replace(braintreeSale, "</kind>", "", 1),
		"another encoding":   `<?xml version="1.0" encoding="latin1"?>` + braintreeSale,
		"no amount":          strings.Replace(braintreeSale, "<amount>100.5</amount>", "", 1),
		"half a cent":        strings.Replace(braintreeSale, "100.5", "100.505", 1),
		"nothing":            "",
		"JSON":               "{}",
		"too deep":           strings.Repeat("<a>", 200) + strings.Repeat("</a>", 200),
		"elements in a kind": strings.Replace(braintreeSale, "transaction_settled", "<b/>transaction_settled", 1),
	} {
		if r, err := p.Read(headersOf(), form(doc)); err == nil || r != (Reading{}) || strings.Contains(err.Error(), "txn_1") {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

func TestOnlyASmallPartOfXMLIsRead(t *testing.T) {
	for doc, reads := range map[string]bool{
		"<n><k>a</k></n>": true, "<n/>": true, " <!-- a --><n/>\n": true, "<other><k>1</k><k>2</k></other>": true,
		"": false, " ": false, "<n/><m/>": false, "<!DOCTYPE n><n/>": false, "<n><!ENTITY a></n>": false, "<n><k/><k/></n>": false, "<n>": false, "</n>": false, "x": false,
		strings.Repeat("<a>", 100) + strings.Repeat("</a>", 100): true,
		strings.Repeat("<a>", 101) + strings.Repeat("</a>", 101): false,
	} {
		if _, err := wanted("n.k").scanXML([]byte(doc)); (err == nil) != reads {
			t.Errorf("%.60q: %v", doc, err)
		}
	}
}
