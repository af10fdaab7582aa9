package webhook

import (
	"cmp"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"regexp"
	"slices"
	"strings"
	"time"

	"sluice/pkg/event"
)

// Declaration describes a provider that needs no code: an HMAC over the raw body
// (with more, if the scheme has it) and bodies of JSON or forms.
type Declaration struct {
	// Name is the provider's, as Provider.Name gives it.
	Name      string    `yaml:"name"`
	Signature Signature `yaml:"signature"`
	Reading   Layout    `yaml:"reading"`
	// Retries is how long after the first delivery the provider may repeat it by
	// itself; LongestRetries if it is 0. See RetrySpan.
	Retries time.Duration `yaml:"retries"`
	// Profile and Tolerance are a built-in provider's; else they are made of the rest.
	Profile   Profile   `yaml:"-"`
	Tolerance Tolerance `yaml:"-"`
}

// profile is the declaration's own, or what can be said of it.
func (d Declaration) profile() Profile {
	if d.Profile.Title != "" {
		return d.Profile
	}
	s := d.Signature
	f := Profile{
		Title: d.Name, Docs: "the endpoints file", Secret: "the signing secret",
		Signature: fmt.Sprintf("HMAC-%s in %s over `%s`, in %s", strings.ToUpper(s.Algorithm), s.Encoding, cmp.Or(s.Signed, "{body}"), s.Header),
		Covers:    "what is named there", ID: strings.Join(d.Reading.ID, " or "), Trust: cmp.Or(d.Reading.Trust, event.Signed), Retries: d.Retries,
	}
	if d.Retries == 0 {
		f.Retries = RetriesUnknown
	}
	return f
}

// Signature describes an HMAC scheme.
type Signature struct {
	// Header carries the signature.
	Header string `yaml:"header"`
	// Part names the signature among parts of the header like `t=…,v1=…`, split at
	// Separator (default ","). Several parts of the name may each be right. Empty:
	// the header is one signature.
	Part      string `yaml:"part"`
	Separator string `yaml:"separator"`
	// Prefix stands before every signature, to the letter ("sha256=").
	Prefix string `yaml:"prefix"`
	// Algorithm is sha256, sha512 or, for old schemes, sha1. Never taken from the
	// request.
	Algorithm string `yaml:"algorithm"`
	// Encoding of the signature: hex or base64.
	Encoding string `yaml:"encoding"`
	// Key says how the secret's text becomes the key: text (default), hex, base64.
	Key string `yaml:"key"`
	// Signed is the signed text: {body} once, and where the scheme has them
	// {timestamp} and {header:NAME}. Default {body}.
	Signed string `yaml:"signed"`
	// Timestamp is where the signed Unix time is, if the scheme has one. It must
	// be in Signed, or anybody could freshen an old request.
	Timestamp Timestamp `yaml:"timestamp"`
	// Required are headers without which a webhook is none of this provider's, beside
	// those above. They are not signed.
	Required []string `yaml:"required"`
}

// Timestamp is a header of its own, or a part of the signature header.
type Timestamp struct {
	Header string `yaml:"header"`
	Part   string `yaml:"part"`
}

var (
	algorithms = map[string]func() hash.Hash{"sha1": sha1.New, "sha256": sha256.New, "sha512": sha512.New}
	encodings  = map[string]func(string) ([]byte, error){"hex": hex.DecodeString, "base64": base64.StdEncoding.Strict().DecodeString}
	keys       = map[string]func(string) ([]byte, error){
		"":       func(s string) ([]byte, error) { return []byte(s), nil },
		"text":   func(s string) ([]byte, error) { return []byte(s), nil },
		"hex":    hex.DecodeString,
		"base64": base64.StdEncoding.DecodeString,
	}
	placeholder = regexp.MustCompile(`\{[^{}]*\}`)
)

// declaredTolerance is a declared provider's until its endpoint says another.
var declaredTolerance = Tolerance{Past: 300 * time.Second, Future: 300 * time.Second}

// NewDeclared makes a provider of a declaration, or reports everything that is
// wrong with it. The provider is Timed if the scheme has a timestamp.
func NewDeclared(d Declaration) (Provider, error) {
	s := d.Signature
	p := declared{name: d.Name, sig: s, hash: algorithms[s.Algorithm], tolerance: cmp.Or(d.Tolerance, declaredTolerance), profile: d.profile()}
	var problems []error
	problem := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("signature."+format, args...))
	}
	if d.Retries < 0 {
		problems = append(problems, errors.New("retries: must not be negative"))
	}
	if s.Header == "" {
		problem("header: missing: name the header that carries the signature")
	}
	if p.hash == nil {
		problem("algorithm: %q is none of sha256, sha512, sha1", s.Algorithm)
	}
	if encodings[s.Encoding] == nil {
		problem("encoding: %q is neither hex nor base64", s.Encoding)
	}
	if keys[s.Key] == nil {
		problem("key: %q is none of text, hex, base64", s.Key)
	}
	if slices.Contains(s.Required, "") {
		problem("required: a header without a name")
	}
	if p.sig.Separator == "" {
		p.sig.Separator = ","
	}
	if s.Timestamp.Header != "" && s.Timestamp.Part != "" {
		problem("timestamp: give a header or a part, not both")
	}
	if s.Timestamp.Part != "" && s.Part == "" {
		problem("timestamp.part: needs signature.part too")
	}
	if s.Part != "" && s.Part == s.Timestamp.Part {
		problem("timestamp.part: is the same part as the signature")
	}
	if p.sig.Signed == "" {
		p.sig.Signed = "{body}"
	}
	var err error
	if p.pieces, err = parseSigned(p.sig.Signed); err != nil {
		problem("signed: %w", err)
	}
	count := func(k pieceKind) (n int) {
		for _, x := range p.pieces {
			if x.what == k {
				n++
			}
		}
		return n
	}
	if count(bodyPiece) != 1 {
		problem("signed: must hold {body} once: what is not signed cannot be trusted")
	}
	switch timed := s.Timestamp != (Timestamp{}); {
	case timed && count(timestampPiece) != 1:
		problem("signed: must hold {timestamp} once: an unsigned time proves nothing")
	case !timed && count(timestampPiece) > 0:
		problem("timestamp: missing, but signed holds {timestamp}")
	}
	if p.layout, err = d.Reading.compile(); err != nil {
		problems = append(problems, err)
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	if s.Timestamp != (Timestamp{}) {
		return timedDeclared{p}, nil
	}
	return p, nil
}

func parseSigned(template string) (pieces []piece, err error) {
	fixed := func(text string) {
		if text != "" {
			pieces = append(pieces, piece{text: text})
		}
	}
	at := 0
	for _, m := range placeholder.FindAllStringIndex(template, -1) {
		fixed(template[at:m[0]])
		name := template[m[0]+1 : m[1]-1]
		at = m[1]
		header, isHeader := strings.CutPrefix(name, headerPrefix)
		switch {
		case name == "body":
			pieces = append(pieces, piece{what: bodyPiece})
		case name == "timestamp":
			pieces = append(pieces, piece{what: timestampPiece})
		case isHeader && header != "":
			pieces = append(pieces, piece{what: headerPiece, header: header})
		default:
			return nil, fmt.Errorf("{%s} is none of {body}, {timestamp}, {header:NAME}", name)
		}
	}
	fixed(template[at:])
	return pieces, nil
}
