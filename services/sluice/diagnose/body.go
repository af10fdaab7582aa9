package diagnose

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"encoding/json"
	"io"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"sluice/services/sluice/recorded"
)

// maxUnpacked bounds what a packed body may become.
const maxUnpacked = 16 << 20

// maxRewritten bounds the bodies that are written again in every style.
const maxRewritten = 1 << 20

const (
	doRaw  = "hand the verification the bytes as they came in, before any middleware parses them"
	doLine = "hand on the body as it came in; when recording, use a tool that adds nothing (curl: --data-binary, not -d)"
)

// bodyRemedies undo what was done to the body on its way.
func bodyRemedies(c Case, s subject) (all []remedy) {
	seen := map[string]bool{string(s.body): true}
	add := func(mistake Mistake, text, do string, body []byte) {
		if seen[string(body)] {
			return
		}
		seen[string(body)] = true
		all = append(all, remedy{Cause{Mistake: mistake, Text: text, Do: do}, func(s *subject) { s.body = body }})
	}
	for _, e := range []struct{ what, end string }{{"a line feed", "\n"}, {"a line end (CRLF)", "\r\n"}, {"a space", " "}} {
		if cut, ok := bytes.CutSuffix(s.body, []byte(e.end)); ok {
			add(LineEnds, "the body has "+e.what+" too many at its end", doLine, cut)
		}
		add(LineEnds, "the body lacks "+e.what+" at its end", doLine, slices.Concat(s.body, []byte(e.end)))
	}
	add(LineEnds, "the body has white space around it that was not sent", doLine, bytes.TrimSpace(s.body))
	unix := bytes.ReplaceAll(s.body, []byte("\r\n"), []byte("\n"))
	add(LineEnds, "the body's line ends became CRLF", doLine, unix)
	add(LineEnds, "the body's line ends (CRLF) became line feeds", doLine, bytes.ReplaceAll(unix, []byte("\n"), []byte("\r\n")))
	if n, stated := contentLength(c.Request); stated && n < len(s.body) {
		add(LineEnds, "the body has bytes after its end, as Content-Length states it", doLine, s.body[:n])
	}
	for _, p := range packed(s.body) {
		add(Encoded, "the body is still "+p.what, p.do, p.body)
	}
	for _, p := range charsets(s.body) {
		add(Charset, p.what, "read the body as bytes, or as UTF-8 throughout", p.body)
	}
	for _, p := range forms(s.body) {
		add(Rewritten, p.what, doRaw, p.body)
	}
	if len(s.body) <= maxRewritten {
		for _, p := range rewritten(s.body) {
			add(Rewritten, "the body was parsed and written again: as signed it is "+p.what, doRaw, p.body)
		}
	}
	return all
}

// variant is a body as it may have been.
type variant struct {
	what, do string
	body     []byte
}

// packed takes off what only the transfer put on.
func packed(body []byte) (all []variant) {
	unpack := func(what string, r io.Reader, err error) {
		if err != nil {
			return
		}
		if plain, err := io.ReadAll(io.LimitReader(r, maxUnpacked)); err == nil && len(plain) > 0 {
			all = append(all, variant{what, "unpack it before verifying (Content-Encoding), or let the proxy do so", plain})
		}
	}
	if gz, err := gzip.NewReader(bytes.NewReader(body)); err == nil {
		unpack("packed with gzip", gz, err)
	}
	if z, err := zlib.NewReader(bytes.NewReader(body)); err == nil {
		unpack("packed with deflate", z, err)
	}
	if len(body) > 0 && body[0] != '{' && body[0] != '[' {
		unpack("packed with deflate", flate.NewReader(bytes.NewReader(body)), nil)
	}
	if plain, ok := recorded.Dechunk(body); ok {
		all = append(all, variant{"in the frames of a chunked transfer", "take the chunks' sizes off: read it as an HTTP server does", plain})
	}
	return all
}

// charsets undo a wrong character set.
func charsets(body []byte) (all []variant) {
	if rest, ok := bytes.CutPrefix(body, []byte("\xef\xbb\xbf")); ok {
		all = append(all, variant{what: "a byte order mark was put before the body", body: rest})
	}
	if utf8.Valid(body) {
		if plain, ok := latin1(string(body)); ok {
			all = append(all, variant{what: "the body was sent in UTF-8, taken for Latin-1, and encoded again", body: plain})
		}
		if plain, ok := windows1252(string(body)); ok {
			all = append(all, variant{what: "the body was sent in UTF-8, taken for Windows-1252, and encoded again", body: plain})
		}
		return all
	}
	var b strings.Builder
	for _, c := range body {
		b.WriteRune(rune(c))
	}
	return append(all, variant{what: "the body was sent in UTF-8 and turned into Latin-1", body: []byte(b.String())})
}

func latin1(text string) ([]byte, bool) {
	out := make([]byte, 0, len(text))
	for _, r := range text {
		if r > 0xff {
			return nil, false
		}
		out = append(out, byte(r))
	}
	return out, true
}

// cp1252 are the characters of the bytes 0x80 to 0x9f in Windows-1252.
var cp1252 = []rune("€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ")

func windows1252(text string) ([]byte, bool) {
	out := make([]byte, 0, len(text))
	for _, r := range text {
		i := slices.Index(cp1252, r)
		switch {
		case i >= 0:
			out = append(out, byte(0x80+i))
		case r <= 0xff:
			out = append(out, byte(r))
		default:
			return nil, false
		}
	}
	return out, true
}

// forms write an encoded form in other ways.
func forms(body []byte) (all []variant) {
	text := string(body)
	if strings.ContainsAny(text, "{\n ") || !strings.Contains(text, "=") {
		return nil
	}
	all = append(all,
		variant{what: "the form was encoded again: spaces were sent as %20, and became +", body: []byte(strings.ReplaceAll(text, "+", "%20"))},
		variant{what: "the form was encoded again: spaces were sent as +, and became %20", body: []byte(strings.ReplaceAll(text, "%20", "+"))})
	if values, err := url.ParseQuery(text); err == nil {
		all = append(all, variant{what: "the form was parsed and written again, not in the order of its names", body: []byte(values.Encode())})
	}
	return all
}

// lost are traces of what cannot be undone.
func lost(s subject) (found []Cause) {
	if bytes.Contains(s.body, []byte("\ufffd")) {
		found = append(found, Cause{Mistake: Charset, Text: "the body holds replacement characters (U+FFFD): bytes were lost when it was decoded", Do: "read the body as bytes, or as UTF-8 throughout"})
	}
	if !utf8.Valid(s.body) {
		found = append(found, Cause{Mistake: Charset, Text: "the body is not in UTF-8", Do: "see whether it was packed, or turned into another character set"})
	}
	trimmed := bytes.TrimSpace(s.body)
	if len(trimmed) == 0 || trimmed[0] != '{' {
		return found
	}
	if !json.Valid(trimmed) {
		return append(found, Cause{Mistake: Truncated, Text: "the body begins as JSON and is none to its end: it is cut off or was changed", Do: "look for a limit of the proxy, the middleware or the recording"})
	}
	if sorted, keys := keysSorted(trimmed); sorted && keys >= 4 {
		found = append(found, Cause{Mistake: Rewritten, Text: "the body's keys are in alphabetical order at every level: it was probably parsed and written again, and the order in which it was sent is lost", Do: doRaw})
	}
	return found
}
