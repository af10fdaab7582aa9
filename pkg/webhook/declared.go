package webhook

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"strconv"
	"strings"
	"time"
)

// declared is a provider made of a Declaration. Only what Signed covers is
// signed: an id or type from a header is not, unless it is in there.
type declared struct {
	*layout
	name      string
	sig       Signature
	hash      func() hash.Hash
	pieces    []piece
	tolerance Tolerance
	profile   Profile
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

func (p declared) Name() string     { return p.name }
func (p declared) Profile() Profile { return p.profile }

func (p declared) WithOrder(at Paths) (_ Provider, err error) {
	p.layout, err = p.withOrder(at)
	return p, err
}

func (p declared) SignatureHeaders() []string {
	names := append([]string{p.sig.Header}, p.sig.Required...)
	if h := p.sig.Timestamp.Header; h != "" {
		names = append(names, h)
	}
	for _, x := range p.pieces {
		if x.what == headerPiece {
			names = append(names, x.header)
		}
	}
	return p.headers(names...)
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
	for _, name := range p.sig.Required {
		if _, reason := one(req.Header(name)); reason != ReasonNone {
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
// that are part of the signed text. What else must be there, says "sample".
func (p declared) Sign(s Secret, id string, at time.Time, body []byte) (map[string]string, error) {
	key, err := p.key(s)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	out := map[string]string{}
	for _, name := range p.sig.Required {
		out[name] = "sample"
	}
	for _, x := range p.pieces {
		if x.what == headerPiece {
			out[x.header] = id
		}
	}
	for _, way := range p.id {
		if at := way[0]; len(way) == 1 && at.source == inHeader && id != "" {
			out[at.name] = id
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

func (p timedDeclared) WithOrder(at Paths) (_ Provider, err error) {
	p.layout, err = p.withOrder(at)
	return p, err
}

func (p timedDeclared) WithTolerance(t Tolerance) Provider {
	p.tolerance = t
	return p
}
