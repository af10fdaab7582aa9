package ingress

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/pkg/endpoint"
	"sluice/pkg/event"
	"sluice/pkg/webhook"
)

const adyenKey = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056"

func adyenEndpoint(t *testing.T) endpoint.Endpoint {
	t.Helper()
	p, ok := webhook.Builtin("adyen")
	s, err := webhook.NewSecret("env:ADYEN", adyenKey)
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	return endpoint.Endpoint{Name: "adyen", Provider: p, Secrets: []webhook.Secret{s}}
}

// adyenItem is one item, not signed.
func adyenItem(psp, order string, value int) string {
	return fmt.Sprintf(`{"NotificationRequestItem":{"pspReference":%q,"merchantAccountCode":"Shop","merchantReference":%q,"amount":{"value":%d,"currency":"EUR"},"eventCode":"AUTHORISATION","eventDate":"2026-11-30T12:00:00+00:00","success":"true"}}`, psp, order, value)
}

func adyenBody(items ...string) string {
	return `{"live":"true","notificationItems":[` + strings.Join(items, ",") + `]}`
}

// sealed is an item with its own right signature.
func sealed(t *testing.T, e endpoint.Endpoint, item string) string {
	t.Helper()
	body, err := e.Provider.(webhook.Sealing).Seal(e.Secrets[0], []byte(adyenBody(item)))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(body), `"notificationItems":[`)
	return rest[:strings.LastIndex(rest, "]")]
}

func signatureIn(item string) string {
	_, rest, _ := strings.Cut(item, `"hmacSignature":"`)
	text, _, _ := strings.Cut(rest, `"`)
	return text
}

// O08: one bad item refuses the request, and nothing of it is produced.
func TestAnAdyenRequestWithOneBadItemIsRefusedWhole(t *testing.T) {
	p := &fakeProducer{}
	e := adyenEndpoint(t)
	r := startLab(t, config(), p, e)
	a := sealed(t, e, adyenItem("PSP1", "ord_b1", 1000))
	b := sealed(t, e, adyenItem("PSP2", "ord_b2", 1))
	for name, body := range map[string]string{
		"a copied signature":      adyenBody(a, strings.Replace(b, signatureIn(b), signatureIn(a), 1)),
		"a copied one, first":     adyenBody(strings.Replace(b, signatureIn(b), signatureIn(a), 1), a),
		"no additionalData":       adyenBody(a, adyenItem("PSP2", "ord_b2", 1)),
		"an empty signature":      adyenBody(a, strings.Replace(b, signatureIn(b), "", 1)),
		"another amount":          adyenBody(a, strings.Replace(b, `"value":1`, `"value":2`, 1)),
		"an item that is null":    adyenBody(a, "null"),
		"items that are no array": `{"live":"true","notificationItems":7}`,
		"no JSON":                 "hello",
	} {
		if res := r.do("POST", "/webhooks/adyen", body); res.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: answered %d", name, res.StatusCode)
		}
	}
	for _, body := range []string{adyenBody(), `{"live":"true","notificationItems":null}`, `{"live":"true"}`, `{}`} {
		if res := r.do("POST", "/webhooks/adyen", body); res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: answered %d", body, res.StatusCode)
		}
	}
	if n := len(p.all()); n != 0 {
		t.Errorf("%d records were produced", n)
	}
}

// O08: six right items, the third a repeat of the first: six records of five events,
// each of which verifies by itself.
func TestAnAdyenRequestOfManyItemsIsARecordAnItem(t *testing.T) {
	p := &fakeProducer{}
	e := adyenEndpoint(t)
	r := startLab(t, config(), p, e)
	var items []string
	for _, n := range []int{1, 2, 1, 3, 4, 5} {
		items = append(items, sealed(t, e, adyenItem(fmt.Sprint("PSP", n), fmt.Sprint("ord_", n), 1000)))
	}
	res := r.do("POST", "/webhooks/adyen", adyenBody(items...), "Content-Type", "application/json")
	if text, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusOK || string(text) != "[accepted]" {
		t.Errorf("answered %d %q", res.StatusCode, text)
	}
	kept := p.kept(t)
	if len(p.all()) != 6 || len(kept) != 5 {
		t.Errorf("%d records of %d events", len(p.all()), len(kept))
	}
	for id, k := range kept {
		if v := e.Verify(webhook.Request{Body: k.Body, Header: func(string) []string { return nil }}, time.Time{}); v.Outcome != webhook.Valid {
			t.Errorf("%s does not verify by itself: %s", id, v.Reason)
		}
		if k.Type != "AUTHORISATION" || k.Mode != event.Live || k.Order != "ord_"+strings.TrimPrefix(k.Payment, "PSP") || k.SecretName != "env:ADYEN" {
			t.Errorf("%s: %+v", id, k)
		}
	}
}
