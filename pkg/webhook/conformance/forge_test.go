package conformance

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"hash"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sluice/pkg/event"
	"sluice/pkg/webhook"
)

var hashes = []func() hash.Hash{md5.New, sha1.New, sha256.New, sha512.New}

// digest is what a signature may look like: hex, or base64 of 20 bytes and more.
var digest = regexp.MustCompile(`[0-9a-fA-F]{128}|[0-9a-fA-F]{64}|[0-9a-fA-F]{40}|[0-9a-fA-F]{32}|[A-Za-z0-9+/_-]{27,}={0,2}`)

// forgeries replace every signature in a request's headers by one made with key,
// over whatever the schemes sign: the body with the times, ids and addresses beside
// it in every way that is known.
func forgeries(r webhook.Request, headers []event.Header, key []byte, try func(webhook.Request) bool) bool {
	beside := []string{"", r.URL}
	for _, h := range headers {
		beside = append(beside, string(h.Value))
		for _, m := range regexp.MustCompile(`(?:^|[,;])(?:t|ts)=(\d+)`).FindAllStringSubmatch(string(h.Value), -1) {
			beside = append(beside, m[1])
		}
	}
	var texts []string
	for _, a := range beside {
		for _, sep := range []string{"", ".", ":"} {
			texts = append(texts, a+sep+string(r.Body), "v0:"+a+sep+string(r.Body))
			for _, b := range beside {
				texts = append(texts, a+"."+b+sep+string(r.Body))
			}
		}
	}
	for _, newHash := range hashes {
		for _, text := range texts {
			mac := hmac.New(newHash, key)
			mac.Write([]byte(text))
			plain := newHash()
			plain.Write([]byte(text))
			plain.Write(key)
			for _, sum := range [][]byte{mac.Sum(nil), plain.Sum(nil)} {
				changed := make([]event.Header, len(headers))
				for i, h := range headers {
					changed[i] = event.Header{Name: h.Name, Value: digest.ReplaceAllFunc(h.Value, func(old []byte) []byte {
						if len(old) == 2*len(sum) {
							return []byte(hex.EncodeToString(sum))
						}
						if len(old) == base64.StdEncoding.EncodedLen(len(sum)) {
							return []byte(base64.StdEncoding.EncodeToString(sum))
						}
						return old
					})}
				}
				forged := r
				forged.Header = webhook.StoredHeaders(changed)
				if try(forged) {
					return true
				}
			}
		}
	}
	return false
}

// keysOf are the keys that a secret's text may stand for.
func keysOf(secret string) [][]byte {
	keys := [][]byte{[]byte(secret)}
	if key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_")); err == nil {
		keys = append(keys, key)
	}
	if key, err := hex.DecodeString(secret); err == nil {
		keys = append(keys, key)
	}
	return keys
}

// O05: nothing signed with a key that everybody knows is accepted by any provider,
// however the secret came to be empty. That the forger knows its trade is shown by
// what it makes with the real key.
func TestNothingSignedWithAnEmptyKeyIsAcceptedByAnyProvider(t *testing.T) {
	able, tried := map[string]bool{}, map[string]int{}
	paths, _ := filepath.Glob("../testdata/vectors/*.json")
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		valid, err := Valid(text)
		if err != nil {
			t.Fatal(err)
		}
		var raw []testCase
		if err := json.Unmarshal(text, &raw); err != nil {
			t.Fatal(err)
		}
		real := map[string]string{}
		for _, c := range raw {
			real[c.Name] = c.Secret
		}
		for _, v := range valid {
			p, name := v.Provider, v.Provider.Name()
			if p.Profile().Secret == "" {
				continue
			}
			for what, none := range map[string][]webhook.Secret{"no secret": nil, "an empty secret": {{}}, "two": {{Name: "a"}, {Name: "b"}}} {
				if got := p.Verify(v.Request, none, v.Now); got.Outcome != webhook.Invalid {
					t.Errorf("%s, %s: %s verifies with %s", name, v.Name, got.Secret, what)
				}
			}
			if tried[name]++; tried[name] > 2 {
				continue
			}
			for _, key := range []string{"", " "} {
				forgeries(v.Request, v.Headers, []byte(key), func(r webhook.Request) bool {
					ok := p.Verify(r, []webhook.Secret{{}}, v.Now).Outcome != webhook.Invalid
					if ok {
						t.Errorf("%s, %s: signed with the key %q it verifies with an empty secret", name, v.Name, key)
					}
					return ok
				})
			}
			if _, err := p.Sign(webhook.Secret{}, "id", v.Now, v.Request.Body); err == nil {
				t.Errorf("%s signs with an empty secret", name)
			}
			if p, ok := p.(webhook.Sealing); ok {
				if _, err := p.Seal(webhook.Secret{}, v.Request.Body); err == nil {
					t.Errorf("%s seals with an empty secret", name)
				}
			}
			if able[name] {
				continue
			}
			blank := make([]event.Header, len(v.Headers)) // the right signatures must not help
			for i, h := range v.Headers {
				blank[i] = event.Header{Name: h.Name, Value: digest.ReplaceAllFunc(h.Value, func(old []byte) []byte { return []byte(strings.Repeat("z", len(old))) })}
			}
			for _, key := range keysOf(real[v.Name]) {
				able[name] = able[name] || forgeries(v.Request, blank, key, func(r webhook.Request) bool { return p.Verify(r, v.Secrets, v.Now).Outcome == webhook.Valid })
			}
		}
	}
	for name, ok := range able {
		if !ok {
			t.Logf("the forger cannot sign as %s does", name)
		}
	}
	for _, name := range []string{"stripe", "github", "github_sha1", "standard_webhooks", "svix"} {
		if !able[name] {
			t.Errorf("the forger cannot even sign as %s with its secret: what it makes proves nothing", name)
		}
	}
}
