package webhook

import (
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
	"strconv"
	"strings"
	"time"
)

// Declaration describes a provider that needs no code: an HMAC over the raw body
// (with more, if the scheme has it) and JSON bodies.
type Declaration struct {
	// Name is the provider's, as Provider.Name gives it.
	Name      string    `yaml:"name"`
	Signature Signature `yaml:"signature"`
	Reading   Layout    `yaml:"reading"`
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
}

// Timestamp is a header of its own, or a part of the signature header.
type Timestamp struct {
	Header string `yaml:"header"`
	Part   string `yaml:"part"`
}

// declared is a provider made of a Declaration. Only what Signed covers is
// signed: an id or type from a header is not, unless it is in there.
type declared struct {
	name      string
	sig       Signature
	hash      func() hash.Hash
	pieces    []piece
	layout    *layout
	tolerance Tolerance
}

// piece of the signed text: fixed text, or what stands for it.
type piece struct {
	text   string
	header string
	what   pieceKind
}

type pieceKind uint8

const (
	fixedPiece pieceKind = iota
	bodyPiece
	timestampPiece
	headerPiece
)

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
	p := declared{name: d.Name, sig: s, hash: algorithms[s.Algorithm], tolerance: declaredTolerance}
	var problems []error
	problem := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("signature."+format, args...))
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

func (p declared) Name() string                              { return p.name }
func (p declared) TimeRepeats() bool                         { return p.layout.timeRepeats }
func (p declared) Read(h Headers, b []byte) (Reading, error) { return p.layout.read(h, b) }

func (p declared) SignatureHeaders() []string {
	names := append(p.layout.headers(), strings.ToLower(p.sig.Header))
	if h := p.sig.Timestamp.Header; h != "" {
		names = append(names, strings.ToLower(h))
	}
	for _, x := range p.pieces {
		if x.what == headerPiece {
			names = append(names, strings.ToLower(x.header))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// key is the HMAC key of a secret.
func (p declared) key(s Secret) ([]byte, error) {
	key, err := keys[p.sig.Key](string(s.value))
	if err != nil || len(key) == 0 {
		return nil, fmt.Errorf("secret %s is not %s, which its declaration's signature.key wants", s.Name, p.sig.Key)
	}
	return key, nil
}

func (p declared) CheckSecret(s Secret) error {
	_, err := p.key(s)
	return err
}

func (p declared) Verify(req Request, secrets []Secret, now time.Time) Verdict {
	header, reason := one(req.Header(p.sig.Header))
	if reason != ReasonNone {
		return refuse(reason)
	}
	signatures, timestamp, ok := p.parse(header)
	if !ok {
		return refuse(ReasonMalformed)
	}
	if h := p.sig.Timestamp.Header; h != "" {
		if timestamp, reason = one(req.Header(h)); reason != ReasonNone {
			return refuse(reason)
		}
	}
	timed := p.sig.Timestamp != (Timestamp{})
	var signedAt time.Time
	if timed {
		if signedAt, ok = parseUnix(timestamp); !ok {
			return refuse(ReasonMalformed)
		}
	}
	signed, reason := p.signed(req.Header, timestamp, req.Body)
	if reason != ReasonNone {
		return refuse(reason)
	}
	name, ok := matchHMAC(p.hash, secrets, p.key, signatures, signed...)
	switch {
	case !ok:
		return refuse(ReasonMismatch)
	case !timed:
		return Verdict{Outcome: Valid, Secret: name}
	}
	return p.tolerance.judge(name, signedAt, now)
}

// parse takes the signature header apart. Parts that cannot be a signature are
// passed over, unless none is left.
func (p declared) parse(header string) (signatures [][]byte, timestamp string, ok bool) {
	take := func(text string) {
		text, found := strings.CutPrefix(text, p.sig.Prefix)
		// No digest is longer than 64 bytes, 128 hex digits.
		if !found || len(text) > 128 {
			return
		}
		if sig, err := encodings[p.sig.Encoding](text); err == nil && len(sig) == p.hash().Size() {
			signatures = append(signatures, sig)
		}
	}
	if p.sig.Part == "" {
		take(header)
		return signatures, "", len(signatures) == 1
	}
	for part := range strings.SplitSeq(header, p.sig.Separator) {
		switch k, v, _ := strings.Cut(strings.TrimSpace(part), "="); k {
		case p.sig.Part:
			take(v)
		case p.sig.Timestamp.Part:
			if k == "" {
				continue
			}
			if timestamp != "" {
				return nil, "", false
			}
			timestamp = v
		}
	}
	return signatures, timestamp, len(signatures) > 0 && len(signatures) <= maxSignatures
}

// signed is the signed text, in parts.
func (p declared) signed(header Headers, timestamp string, body []byte) ([][]byte, Reason) {
	parts := make([][]byte, len(p.pieces))
	for i, x := range p.pieces {
		switch x.what {
		case fixedPiece:
			parts[i] = []byte(x.text)
		case bodyPiece:
			parts[i] = body
		case timestampPiece:
			parts[i] = []byte(timestamp)
		case headerPiece:
			v, reason := one(header(x.header))
			if reason != ReasonNone {
				return nil, reason
			}
			parts[i] = []byte(v)
		}
	}
	return parts, ReasonNone
}

// Sign gives id to the header that the event's id is read from, and to headers
// that are part of the signed text.
func (p declared) Sign(s Secret, id string, at time.Time, body []byte) (map[string]string, error) {
	key, err := p.key(s)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	out := map[string]string{}
	for _, x := range p.pieces {
		if x.what == headerPiece {
			out[x.header] = id
		}
	}
	for _, at := range p.layout.id {
		if at.header != "" && id != "" {
			out[at.header] = id
		}
	}
	timestamp := strconv.FormatInt(at.Unix(), 10)
	parts, _ := p.signed(func(name string) []string { return []string{out[name]} }, timestamp, body)
	sum := appendHMAC(nil, p.hash, key, parts...)
	signature := p.sig.Prefix + hex.EncodeToString(sum)
	if p.sig.Encoding == "base64" {
		signature = p.sig.Prefix + base64.StdEncoding.EncodeToString(sum)
	}
	if p.sig.Part != "" {
		signature = p.sig.Part + "=" + signature
		if t := p.sig.Timestamp.Part; t != "" {
			signature = t + "=" + timestamp + p.sig.Separator + signature
		}
	}
	out[p.sig.Header] = signature
	if h := p.sig.Timestamp.Header; h != "" {
		out[h] = timestamp
	}
	return out, nil
}

// timedDeclared is a declared provider whose scheme has a time.
type timedDeclared struct{ declared }

func (p timedDeclared) Tolerance() Tolerance { return p.tolerance }

func (p timedDeclared) WithTolerance(t Tolerance) Provider {
	p.tolerance = t
	return p
}
