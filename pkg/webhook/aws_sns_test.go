package webhook

import (
	"crypto"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

const snsTopic = "arn:aws:sns:eu-west-1:123456789012:orders"

// snsBody is an envelope of a type, signed; pairs are fields, and nil takes one out.
func snsBody(t testing.TB, ca authority, version string, fields map[string]any) []byte {
	t.Helper()
	all := map[string]any{"Type": "Notification", "MessageId": "m-1", "TopicArn": snsTopic, "Message": "hello", "Timestamp": "2026-01-01T00:00:05.123Z",
		"SignatureVersion": version, "SigningCertURL": "https://sns.eu-west-1.amazonaws.com/a.pem"}
	for name, v := range fields {
		if all[name] = v; v == nil {
			delete(all, name)
		}
	}
	signed := ""
	for _, name := range snsSigned[all["Type"].(string)] {
		if v, ok := all[name].(string); ok {
			signed += name + "\n" + v + "\n"
		}
	}
	if _, ok := all["Signature"]; !ok {
		if version == "1" {
			sum := sha1.Sum([]byte(signed))
			all["Signature"] = ca.sign(t, crypto.SHA1, sum[:])
		} else {
			sum := sha256.Sum256([]byte(signed))
			all["Signature"] = ca.sign(t, crypto.SHA256, sum[:])
		}
	}
	body, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func TestAnSNSEnvelopeVerifiesAsItsTypeIsSigned(t *testing.T) {
	ca := newAuthority(t)
	p := builtinOf(t, "aws_sns").(Accounted).WithAccount(snsTopic)
	confirm := func(typ string) map[string]any {
		return map[string]any{"Type": typ, "Token": "tok", "SubscribeURL": "https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription"}
	}
	with := func(version string, fields map[string]any) []byte { return snsBody(t, ca, version, fields) }
	altered := func(body []byte, from, to string) []byte { return []byte(strings.Replace(string(body), from, to, 1)) }
	for name, c := range map[string]struct {
		body []byte
		want Reason
	}{
		"version 1":                       {with("1", nil), ReasonNone},
		"version 2":                       {with("2", nil), ReasonNone},
		"with a subject":                  {with("2", map[string]any{"Subject": "hi"}), ReasonNone},
		"a subject of null":               {altered(with("2", nil), `{`, `{"Subject":null,`), ReasonNone},
		"an empty subject is signed":      {with("2", map[string]any{"Subject": ""}), ReasonNone},
		"a subject put in":                {altered(with("2", nil), `{`, `{"Subject":"x",`), ReasonMismatch},
		"a confirmation":                  {with("2", confirm("SubscriptionConfirmation")), ReasonNone},
		"an end of subscription":          {with("2", confirm("UnsubscribeConfirmation")), ReasonNone},
		"another token":                   {altered(with("2", confirm("UnsubscribeConfirmation")), `"tok"`, `"kot"`), ReasonMismatch},
		"no token":                        {with("2", map[string]any{"Type": "SubscriptionConfirmation", "SubscribeURL": "x"}), ReasonMalformed},
		"another message":                 {altered(with("2", nil), "hello", "hallo"), ReasonMismatch},
		"version 1 said to be 2":          {altered(with("1", nil), `"SignatureVersion":"1"`, `"SignatureVersion":"2"`), ReasonMismatch},
		"version 3":                       {altered(with("2", nil), `"SignatureVersion":"2"`, `"SignatureVersion":"3"`), ReasonMalformed},
		"an unknown type":                 {with("2", map[string]any{"Type": "Other"}), ReasonMalformed},
		"another's topic, rightly signed": {with("2", map[string]any{"TopicArn": "arn:aws:sns:eu-west-1:999999999999:orders"}), ReasonAccount},
		"no topic":                        {with("2", map[string]any{"TopicArn": nil}), ReasonMalformed},
		"no signature":                    {with("2", map[string]any{"Signature": ""}), ReasonMissing},
		"not base64":                      {with("2", map[string]any{"Signature": "!"}), ReasonMalformed},
		"a number for a text":             {with("2", map[string]any{"Message": 5}), ReasonMalformed},
		"a key twice":                     {altered(with("2", nil), `{`, `{"Message":"x",`), ReasonMalformed}, // O14
		"another host":                    {with("2", map[string]any{"SigningCertURL": "https://s3.amazonaws.com/a.pem"}), ReasonCertificate},
		"not JSON":                        {[]byte("Message=hello"), ReasonMalformed},
	} {
		req := Request{Header: headersOf(), Body: c.body, Certificate: Certificate{Chain: []*x509.Certificate{ca.leaf(t, "sns.amazonaws.com", nil, noon.Add(time.Minute))}}}
		if v := p.Verify(req, nil, noon); v.Reason != c.want || (v.Outcome == Valid) != (c.want == ReasonNone) {
			t.Errorf("%s: %+v, want %q", name, v, c.want)
		}
		if c.want != ReasonNone {
			continue
		}
		for off, want := range map[time.Duration]Reason{2 * time.Minute: ReasonCertificate, -2 * time.Minute: ReasonCertificate} {
			if v := p.Verify(req, nil, noon.Add(off)); v.Reason != want {
				t.Errorf("%s, %v off the certificate's dates: %+v", name, off, v)
			}
		}
		req.Certificate.Chain = nil
		if v := p.Verify(req, nil, noon); v.Reason != ReasonCertificate {
			t.Errorf("%s without a certificate: %+v", name, v)
		}
	}
}

func TestAnSNSMessageIsReadIfItIsOfAKnownForm(t *testing.T) {
	p := builtinOf(t, "aws_sns")
	envelope := func(fields map[string]any) []byte {
		all := map[string]any{"Type": "Notification", "MessageId": "m-1", "Timestamp": "2026-01-01T00:00:05.123Z", "Message": "hello"}
		for name, v := range fields {
			all[name] = v
		}
		body, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
	sent := time.Date(2026, 1, 1, 0, 0, 5, 123000000, time.UTC)
	for name, c := range map[string]struct {
		fields map[string]any
		want   Reading
	}{
		"text":           {nil, Reading{ID: "m-1", Type: "Notification", Time: sent}},
		"other JSON":     {map[string]any{"Message": `{"order":"ORD-1","status":"paid"}`}, Reading{ID: "m-1", Type: "Notification", Time: sent}},
		"a confirmation": {map[string]any{"Type": "SubscriptionConfirmation", "Message": `{"type":"payment.succeeded"}`}, Reading{ID: "m-1", Type: "SubscriptionConfirmation", Time: sent}},
		"a payment": {map[string]any{"Message": `{"type":"payment.succeeded","timestamp":"2026-01-01T00:00:01Z","data":{"id":"p","order_id":"o","amount":500,"currency":"eur"}}`},
			Reading{ID: "m-1", Type: "payment.succeeded", Time: time.Date(2026, 1, 1, 0, 0, 1, 0, time.UTC), Order: "o", Payment: "p", Subject: "p", Fact: order.KindPaid, Amount: 500, Currency: "EUR"}},
		"a payment without a time": {map[string]any{"Message": `{"type":"payment.failed","data":{"id":"p"}}`}, Reading{ID: "m-1", Type: "payment.failed", Time: sent, Payment: "p", Subject: "p", Fact: order.KindFailed}},
	} {
		c.want.Trust = event.Signed
		if r, err := p.Read(headersOf(), envelope(c.fields)); err != nil || r != c.want {
			t.Errorf("%s: %+v, %v\nwant %+v", name, r, err, c.want)
		}
	}
	for name, fields := range map[string]map[string]any{
		"a payment without an amount": {"Message": `{"type":"payment.succeeded","data":{"id":"p"}}`},
		"no id":                       {"MessageId": ""},
		"a broken time":               {"Timestamp": "now"},
	} {
		if r, err := p.Read(headersOf(), envelope(fields)); err == nil || r != (Reading{}) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}
