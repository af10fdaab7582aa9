// Package recorded reads requests that somebody recorded: raw HTTP, a curl command,
// a dump of curl's own, or a HAR file. It keeps the body's bytes as they are.
package recorded

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Header is one header line.
type Header struct{ Name, Value string }

// Request is one recorded request.
type Request struct {
	Method string
	// Target is its path and query, or the whole URL if that was recorded.
	Target  string
	Headers []Header
	Body    []byte
	// At is when it was sent, if the recording says so.
	At time.Time
	// Notes say what is to be known of the recording.
	Notes []string
	// Lossy: the body may not be byte for byte what was sent; a note says why.
	Lossy bool
}

// Values are all values of a header, in order; names are matched without case.
func (r Request) Values(name string) (values []string) {
	for _, h := range r.Headers {
		if strings.EqualFold(h.Name, name) {
			values = append(values, h.Value)
		}
	}
	return values
}

// Query is the target's raw query.
func (r Request) Query() string {
	target, _, _ := strings.Cut(r.Target, "#")
	_, query, _ := strings.Cut(target, "?")
	return query
}

// Path is the target's path.
func (r Request) Path() string {
	target := r.Target
	if _, rest, ok := strings.Cut(target, "://"); ok {
		if i := strings.IndexByte(rest, '/'); i >= 0 {
			target = rest[i:]
		} else {
			target = "/"
		}
	}
	target, _, _ = strings.Cut(target, "#")
	path, _, _ := strings.Cut(target, "?")
	return path
}

// ErrFormat: the text is no request in any of the formats.
var ErrFormat = errors.New("it is neither raw HTTP (POST /… HTTP/1.1), nor a curl command or trace, nor a HAR file")

var requestLine = regexp.MustCompile(`^([A-Z]+) (\S+) HTTP/[0-9](?:\.[0-9])?$`)

// Parse reads all requests of a recording; readFile gives the files that a curl
// command names (@file).
func Parse(text []byte, readFile func(string) ([]byte, error)) ([]Request, error) {
	start := bytes.TrimLeft(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")), " \t\r\n")
	one := func(r Request, err error) ([]Request, error) {
		if err != nil {
			return nil, err
		}
		return []Request{r}, nil
	}
	first, _, _ := bytes.Cut(start, []byte("\n"))
	first = bytes.TrimSuffix(first, []byte("\r"))
	switch {
	case bytes.HasPrefix(start, []byte("{")):
		return parseHAR(start)
	case curlBegin.Match(start):
		return one(parseCurl(string(start), readFile))
	case requestLine.Match(first):
		return one(parseHTTP(start))
	case traceLine.Match(first):
		return one(parseTrace(string(start)))
	}
	return nil, ErrFormat
}

// parseHTTP reads a request as it goes over the wire. Lines may end in CRLF or LF;
// everything after the empty line is the body.
func parseHTTP(text []byte) (Request, error) {
	head, body, found := cutHead(text)
	lines := strings.Split(strings.ReplaceAll(string(head), "\r\n", "\n"), "\n")
	m := requestLine.FindStringSubmatch(lines[0])
	if m == nil {
		return Request{}, errors.New("raw HTTP: the first line is no request line")
	}
	r := Request{Method: m[1], Target: m[2], Body: body}
	for i, line := range lines[1:] {
		if err := r.header(line); err != nil {
			return Request{}, fmt.Errorf("raw HTTP: line %d: %w", i+2, err)
		}
	}
	if !found {
		r.Notes = append(r.Notes, "no empty line follows the headers: it has no body")
	}
	if te := r.Values("Transfer-Encoding"); len(te) > 0 && strings.EqualFold(strings.TrimSpace(te[len(te)-1]), "chunked") {
		if plain, ok := Dechunk(r.Body); ok {
			r.Body = plain
			r.Notes = append(r.Notes, "the body came in chunks, which were put together")
		}
	}
	return r, nil
}

// cutHead cuts at the first empty line.
func cutHead(text []byte) (head, body []byte, found bool) {
	for at := 0; at < len(text); {
		end := bytes.IndexByte(text[at:], '\n')
		if end < 0 {
			break
		}
		if line := bytes.TrimSuffix(text[at:at+end], []byte("\r")); len(line) == 0 {
			return bytes.TrimRight(text[:at], "\r\n"), text[at+end+1:], true
		}
		at += end + 1
	}
	return bytes.TrimRight(text, "\r\n"), nil, false
}

var headerName = regexp.MustCompile("^:?[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// header takes one line over. Pseudo-headers of HTTP/2 are none.
func (r *Request) header(line string) error {
	if line == "" {
		return errors.New("an empty line among the headers")
	}
	if (line[0] == ' ' || line[0] == '\t') && len(r.Headers) > 0 { // a folded line
		last := &r.Headers[len(r.Headers)-1]
		last.Value += " " + strings.Trim(line, " \t")
		return nil
	}
	colon := strings.IndexByte(line[1:], ':') + 1
	if colon < 1 || !headerName.MatchString(line[:colon]) {
		return errors.New("it is no header, as Name: value is")
	}
	if line[0] != ':' {
		r.Headers = append(r.Headers, Header{line[:colon], strings.Trim(line[colon+1:], " \t")})
	}
	return nil
}

// Dechunk takes the framing of HTTP's chunked transfer off; false if text is not
// framed so, whole, and with nothing after it.
func Dechunk(text []byte) ([]byte, bool) {
	out := []byte{}
	for {
		line, rest, ok := bytes.Cut(text, []byte("\r\n"))
		if !ok || len(line) > 64 {
			return nil, false
		}
		size, _, _ := bytes.Cut(line, []byte(";"))
		n, err := strconv.ParseUint(strings.TrimSpace(string(size)), 16, 31)
		if err != nil || uint64(len(rest)) < n {
			return nil, false
		}
		if n == 0 {
			return out, len(bytes.Trim(rest, "\r\n")) == 0
		}
		out = append(out, rest[:n]...)
		if text, ok = bytes.CutPrefix(rest[n:], []byte("\r\n")); !ok {
			return nil, false
		}
	}
}

// plain is an error of JSON without the text it stands at.
func plain(err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("not JSON at byte %d", syntax.Offset)
	}
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		return fmt.Errorf("%s is not what HAR has there", kind.Field)
	}
	return errors.New("a value in it cannot be read")
}
