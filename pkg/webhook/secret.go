package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// Secret is one signing secret. Its value never leaves this package: it prints
// and logs as its name.
type Secret struct {
	// Name tells it apart in logs and records (the reference it came from).
	Name  string
	value []byte
}

// NewSecret takes a secret as the provider shows it. Line ends at its end (a
// mounted file's) are dropped. Empty, blank and well-known sample values are
// refused: with them anybody could sign.
func NewSecret(name, value string) (Secret, error) {
	v := strings.TrimRight(value, "\r\n")
	switch {
	case strings.TrimSpace(v) == "":
		return Secret{}, fmt.Errorf("secret %s is empty", name)
	case strings.TrimFunc(v, unicode.IsSpace) != v:
		return Secret{}, fmt.Errorf("secret %s begins or ends with white space", name)
	case isPlaceholder(v):
		return Secret{}, fmt.Errorf("secret %s is a placeholder from a sample, not a secret", name)
	}
	return Secret{Name: name, value: []byte(v)}, nil
}

// VectorSecret takes any text for a secret, and nothing for none. It is for signature
// vectors, which are signed with what documentation prints; an endpoint's secrets are
// made by NewSecret.
func VectorSecret(name, value string) Secret { return Secret{Name: name, value: []byte(value)} }

// String, GoString and LogValue keep the value out of every text.
func (s Secret) String() string       { return "secret " + s.Name }
func (s Secret) GoString() string     { return s.String() }
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Mask replaces the secret wherever a text shows it, also without its prefix and in
// every form of Shown.
func (s Secret) Mask(text, by string) string {
	value := string(s.value)
	bare := value
	for _, prefix := range []string{secretPrefix, privateKeyPrefix, publicKeyPrefix} {
		bare = strings.TrimPrefix(bare, prefix)
	}
	for _, v := range []string{value, bare} {
		if v == "" {
			continue
		}
		for _, form := range Shown(v) {
			text = strings.ReplaceAll(text, form, by)
		}
	}
	return text
}

// escapes are how libraries write, in JSON and HTML, characters of secrets and of
// base64: PHP's JSON, .NET's JSON and HTML, Go's HTML, and Handlebars.
var escapes = []*strings.Replacer{
	strings.NewReplacer("/", `\/`),
	strings.NewReplacer("+", `\u002B`, "&", `\u0026`, "<", `\u003C`, ">", `\u003E`, "'", `\u0027`, `"`, `\u0022`, "`", `\u0060`),
	strings.NewReplacer("+", "&#x2B;", "&", "&amp;", "<", "&lt;", ">", "&gt;", "'", "&#x27;", `"`, "&quot;"),
	strings.NewReplacer("+", "&#43;", "&", "&amp;", "<", "&lt;", ">", "&gt;", "'", "&#39;", `"`, "&#34;"),
	strings.NewReplacer("/", "&#x2F;", "=", "&#x3D;", "&", "&amp;", "<", "&lt;", ">", "&gt;", "'", "&#x27;", `"`, "&quot;", "`", "&#x60;"),
	strings.NewReplacer("=", "&#61;", "&", "&amp;", "<", "&lt;", ">", "&gt;", "'", "&#39;", `"`, "&#34;"),
}

// Shown are the forms in which texts show a value: as it is, as JSON, URLs and HTML
// escape it. The longest comes first where one is part of another.
func Shown(v string) []string {
	quoted, _ := json.Marshal(v)
	all := []string{v, string(quoted[1 : len(quoted)-1]), url.QueryEscape(v), url.PathEscape(v)}
	for _, e := range escapes {
		all = append(all, e.Replace(v))
	}
	slices.SortStableFunc(all, func(a, b string) int { return len(b) - len(a) })
	return slices.Compact(all)
}

// placeholders are values that samples and templates carry; compared without
// case, and without the prefix a provider puts before its secrets.
var placeholders = []string{
	"changeme", "change-me", "change_me", "secret", "password", "test", "example", "placeholder",
	"changeit", "dummy", "mysecret", "my-secret", "my_secret",
	"your-secret", "your_secret", "yoursecret", "your-webhook-secret", "your_webhook_secret", "xxx", "todo", "whsec_", "none", "null", "undefined",
}

func isPlaceholder(v string) bool {
	v = strings.ToLower(v)
	bare := strings.TrimPrefix(v, "whsec_")
	if strings.Trim(bare, "x*.…") == "" || strings.HasPrefix(v, "<") && strings.HasSuffix(v, ">") || strings.HasPrefix(v, "${") {
		return true
	}
	for _, p := range placeholders {
		if v == p || bare == p {
			return true
		}
	}
	return false
}

// errEmptySecret keeps Sign from signing with a key that everybody knows.
var errEmptySecret = errors.New("sign: the secret is empty")

// refuseBeginning refuses a secret that begins as something else does: the text says
// what it is, and then what to give.
func refuseBeginning(s Secret, is, give string, prefixes ...string) error {
	for _, prefix := range prefixes {
		if strings.HasPrefix(string(s.value), prefix) {
			return fmt.Errorf("secret %s is %s (%s…); %s", s.Name, is, prefix, give)
		}
	}
	return nil
}

// samples are secrets that providers print in their documentation: right in form,
// and known to all. Vectors are signed with them.
var samples = []string{
	"It's a Secret to Everybody",                                             // docs.github.com, Validating webhook deliveries
	"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",                                 // Svix and Standard Webhooks libraries
	"8f742231b10e8888abcd99yyyzzz85a5",                                       // docs.slack.dev, Verifying requests from Slack
	"44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056",       // docs.adyen.com, Verify HMAC signatures
	"pdl_ntfset_01hsdn8d43dt7mezr1ef2jtbaw_hKkRiCGyyRhbFwIUuqiTBgI7gnWoV0Gr", // paddle-go-sdk
	"30291a20-0bd1-4267-9b0f-e6e7b123c0bf",                                   // coinbase-commerce-node
	"Ibxx_5AKakO-3qeNVR61Dw",                                                 // square-nodejs-sdk
	"Dfsfh56dgKl",                                                            // T-Bank's API documentation
	"usaf8fw8fsw21g",                                                         // the same, how a Token is made
	"11111111111111",                                                         // developer.tbank.ru, the same
	"KeyFromMerchantCabinet",                                                 // Payme's PHP template
	"your_secret_key_here",                                                   // Mercado Pago's SDK
	"integration_public_key:integration_private_key",                         // Braintree's SDKs
}

// IsSample says whether the secret is a published sample, which must not guard
// real money (O05).
func (s Secret) IsSample() bool {
	return slices.ContainsFunc(samples, func(sample string) bool {
		// Without case, as a key in hexadecimal digits is the same in either.
		return strings.EqualFold(string(s.value), sample) || strings.EqualFold(string(s.value), strings.TrimPrefix(sample, secretPrefix))
	})
}
