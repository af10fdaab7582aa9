package webhook

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// Mistaken is a secret as it would be without one of the usual mistakes in giving
// it. Should it verify what the secret itself does not, the mistake was made.
type Mistaken struct {
	Secret Secret
	// Mistake is a part of a sentence whose subject is the secret; it holds no part
	// of the value.
	Mistake string
	// Sender: it was made where webhooks are signed, not here.
	Sender bool
}

// knownPrefixes are what providers put before their secrets.
var knownPrefixes = []string{secretPrefix, publicKeyPrefix, "pdl_ntfset_"}

// Mistaken lists what the secret would be if it had been given right. It is for
// explaining a refusal, never for verifying a webhook.
func (s Secret) Mistaken() (all []Mistaken) {
	v := string(s.value)
	add := func(mistake, value string) {
		if value != "" && value != v {
			all = append(all, Mistaken{Secret: Secret{Name: s.Name, value: []byte(value)}, Mistake: mistake})
		}
	}
	atSender := func(mistake, value string) {
		all = append(all, Mistaken{Secret{Name: s.Name, value: []byte(value)}, mistake, true})
	}
	add("is in quotation marks, which do not belong to it", strings.Trim(v, `"'`))
	bare := v
	for _, prefix := range knownPrefixes {
		if rest, ok := strings.CutPrefix(v, prefix); ok {
			bare = rest
			mistake := "has a prefix " + prefix + " that does not belong to it"
			if strings.HasPrefix(rest, prefix) {
				mistake = "has its prefix " + prefix + " twice"
			}
			add(mistake, rest)
		} else {
			add("lacks its prefix "+prefix, prefix+v)
		}
	}
	for _, text := range []string{v, bare} {
		trimmed := strings.TrimRight(text, "=")
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			if key, err := encoding.DecodeString(trimmed); err == nil {
				add("is still encoded in base64", string(key))
				break
			}
		}
		if key, err := hex.DecodeString(text); err == nil {
			add("is still encoded in hex", string(key))
		}
	}
	if strings.HasPrefix(v, secretPrefix) {
		atSender("was taken as it stands at the sender, prefix and all, and must be decoded there", base64.StdEncoding.EncodeToString(s.value))
		atSender("was taken as it stands at the sender, but for its prefix, and must be decoded there", base64.StdEncoding.EncodeToString([]byte(bare)))
	}
	add("was decoded from base64, and must be given encoded", base64.StdEncoding.EncodeToString(s.value))
	add("was decoded from base64, and must be given encoded", secretPrefix+base64.StdEncoding.EncodeToString(s.value))
	add("was decoded from hex, and must be given encoded", hex.EncodeToString(s.value))
	add("was decoded from hex, and must be given encoded", strings.ToUpper(hex.EncodeToString(s.value)))
	if _, err := hex.DecodeString(v); err == nil {
		add("is in capital letters", strings.ToLower(v))
		add("is in small letters", strings.ToUpper(v))
	}
	atSender("was set with a line end at the sender", v+"\n")
	return all
}

// apiKeys are beginnings of what authenticates a shop at a provider's API, and is
// often pasted in a signing secret's place.
var apiKeys = []struct{ prefix, whose string }{
	{"sk_", "Stripe, Paystack or Checkout.com"},
	{"rk_", "Stripe"},
	{"pk_", "Stripe, Paystack or Checkout.com"},
	{"rzp_", "Razorpay"},
	{"pdl_live_apikey_", "Paddle"},
	{"pdl_sdbx_apikey_", "Paddle"},
	{"shpat_", "Shopify"},
	{"APP_USR-", "Mercado Pago"},
	{"FLWSECK", "Flutterwave"},
	{"FLWPUBK", "Flutterwave"},
	{"EAAA", "Square"},
	{"live_", "Mollie or GoCardless"},
	{"test_", "Mollie"},
}

// APIKeyOf says at whose API the secret is a key, by its beginning; "" if it does
// not look like one. With some schemes the secret is the API's key.
func (s Secret) APIKeyOf() string {
	for _, k := range apiKeys {
		if strings.HasPrefix(string(s.value), k.prefix) {
			return k.whose
		}
	}
	return ""
}
