package effects

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"sluice/pkg/effect"
	"sluice/pkg/webhook"
)

// masker takes out of an answer what must not be kept: what was sent to prove who
// calls, in the forms in which it may be echoed, and what looks like a credential.
type masker struct {
	effect  effect.Declaration
	headers []string
}

func newMasker(d effect.Declaration) masker {
	m := masker{effect: d}
	for _, h := range d.Headers {
		if v := h.Reveal(); len(v) >= shortestSecret {
			m.headers = append(m.headers, webhook.Shown(v)...)
			if _, token, ok := strings.Cut(v, " "); ok && len(token) >= shortestSecret { // Bearer, Basic
				m.headers = append(m.headers, webhook.Shown(token)...)
			}
		}
	}
	return m
}

const (
	masked = "***"
	// shortestSecret: masking anything shorter would tear texts apart and hide nothing.
	shortestSecret = 6
)

// credential is a name that says what follows, or a scheme of Authorization. White
// space after the name alone is no sign: "secret santa" is none.
var credential = regexp.MustCompile(`(?i)((?:authorization|cookie|password|passwd|secret|token|api[-_]?key|signature)[a-z_-]*["']?\s*[:=]\s*["']?(?:(?:bearer|basic|digest)\s+)?|\b(?:bearer|basic)\s+)[^\s"'<>&,;]{6,}|(\bwhs(?:ec|k)_)[A-Za-z0-9+/=_-]{6,}`)

// clean is the answer's text without secrets. sent are the signatures that went out.
func (m masker) clean(text string, sent ...string) string {
	for _, s := range m.effect.Secrets {
		text = s.Mask(text, masked)
	}
	for _, v := range m.headers {
		text = strings.ReplaceAll(text, v, masked)
	}
	for _, signature := range sent {
		for one := range strings.SplitSeq(signature, " ") {
			if _, v, ok := strings.Cut(one, ","); ok {
				one = v
			}
			for _, v := range webhook.Shown(one) {
				text = strings.ReplaceAll(text, v, masked)
			}
		}
	}
	return credential.ReplaceAllString(text, "$1$2"+masked)
}

// beginning is up to n bytes of a text, on one line, of whole and printable characters.
func beginning(text string, n int) string {
	var b strings.Builder
	space := false
	for _, r := range text {
		switch {
		case unicode.IsSpace(r):
			space = b.Len() > 0
			continue
		case r == utf8.RuneError:
			r = '?'
		case !unicode.IsPrint(r):
			continue
		}
		need := utf8.RuneLen(r)
		if space {
			need++
		}
		if b.Len()+need > n {
			break
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		b.WriteRune(r)
	}
	return b.String()
}
