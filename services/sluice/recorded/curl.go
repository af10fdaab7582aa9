package recorded

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

var curlBegin = regexp.MustCompile(`^(?:\$ )?curl(?:\.exe)?\s`)

// Options of curl that take no argument, or one that does not matter here.
var (
	curlSwitches = words(`compressed insecure k silent s show-error S verbose v include i location L fail f fail-with-body
		no-progress-meter globoff g http1.0 http1.1 http2 http2-prior-knowledge tlsv1.2 tlsv1.3 path-as-is no-buffer N ipv4 4 ipv6 6 progress-bar #`)
	curlIgnored = words(`output o write-out w max-time m connect-timeout retry retry-delay retry-max-time cacert capath cert E key resolve
		proxy x interface limit-rate trace trace-ascii dump-header D cookie-jar c`)
	curlData = words(`data d data-raw data-binary data-ascii data-urlencode json`)
)

func words(text string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(text) {
		set[w] = true
	}
	return set
}

// parseCurl reads a curl command line as a POSIX shell would. An option it does
// not know is refused, since it might change the request.
func parseCurl(text string, readFile func(string) ([]byte, error)) (Request, error) {
	args, err := shellWords(strings.TrimPrefix(text, "$ "))
	if err != nil {
		return Request{}, fmt.Errorf("curl: %w", err)
	}
	c := curl{readFile: readFile}
	for args = args[1:]; len(args) > 0; {
		if args, err = c.take(args); err != nil {
			return Request{}, fmt.Errorf("curl: %w", err)
		}
	}
	if c.Target == "" {
		return Request{}, errors.New("curl: the command has no URL")
	}
	if c.Method == "" {
		c.Method = "GET"
		if c.hasBody && !c.get {
			c.Method = "POST"
		}
	}
	if c.get {
		join := "?"
		if strings.Contains(c.Target, "?") {
			join = "&"
		}
		c.Target += join + string(c.Body)
		c.Body = nil
	} else if c.hasBody && len(c.Values("Content-Type")) == 0 {
		c.Headers = append(c.Headers, Header{"Content-Type", c.contentType})
	}
	return c.Request, nil
}

type curl struct {
	Request
	hasBody, get bool
	contentType  string
	readFile     func(string) ([]byte, error)
}

// take takes one option with its argument, or the URL, off args.
func (c *curl) take(args []string) ([]string, error) {
	word, rest := args[0], args[1:]
	if !strings.HasPrefix(word, "-") || word == "-" {
		return rest, c.url(word)
	}
	name, value, given := word[1:], "", false
	if long, ok := strings.CutPrefix(word, "--"); ok {
		name, value, given = strings.Cut(long, "=")
	} else if len(name) > 1 { // -sS, -XPOST
		if curlSwitches[name[:1]] {
			return append([]string{"-" + name[1:]}, rest...), nil
		}
		name, value, given = name[:1], name[1:], true
	}
	if curlSwitches[name] {
		return rest, nil
	}
	if name == "get" || name == "G" {
		c.get = true
		return rest, nil
	}
	if !given {
		if len(rest) == 0 {
			return nil, fmt.Errorf("option %s lacks its argument", word)
		}
		value, rest = rest[0], rest[1:]
	}
	return rest, c.option(name, value)
}

func (c *curl) url(text string) error {
	if c.Target != "" {
		return errors.New("the command has two URLs")
	}
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	if _, err := url.Parse(text); err != nil {
		return errors.New("its URL is none")
	}
	c.Target = text
	return nil
}

func (c *curl) option(name, value string) error {
	switch name {
	case "url":
		return c.url(value)
	case "request", "X":
		c.Method = value
	case "header", "H":
		if bare, ok := strings.CutSuffix(value, ";"); ok && !strings.Contains(value, ":") {
			value = bare + ":"
		}
		if err := c.header(value); err != nil {
			return fmt.Errorf("option -H: %w", err)
		}
	case "user", "u":
		c.Headers = append(c.Headers, Header{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(value))})
	case "user-agent", "A":
		c.Headers = append(c.Headers, Header{"User-Agent", value})
	case "referer", "e":
		c.Headers = append(c.Headers, Header{"Referer", value})
	case "cookie", "b":
		c.Headers = append(c.Headers, Header{"Cookie", value})
	default:
		switch {
		case curlData[name]:
			return c.data(name, value)
		case !curlIgnored[name]:
			return fmt.Errorf("option %s is not known here; leave it out if it does not change the request", name)
		}
	}
	return nil
}

// data adds to the body as curl does: -d drops line ends of a file, --data-raw
// takes @ as it stands, and several are joined with &.
func (c *curl) data(name, value string) error {
	if name == "data-urlencode" {
		return errors.New("option --data-urlencode is not known here; give the encoded body with --data-raw")
	}
	part := []byte(value)
	if file, ok := strings.CutPrefix(value, "@"); ok && name != "data-raw" {
		if c.readFile == nil {
			return errors.New("the body is in a file; put it into the command")
		}
		text, err := c.readFile(file)
		if err != nil {
			return fmt.Errorf("read the body: %w", err)
		}
		part = text
		if name != "data-binary" && name != "json" {
			part = []byte(strings.NewReplacer("\r", "", "\n", "", "\x00", "").Replace(string(text)))
			if len(part) != len(text) {
				c.Lossy = true
				c.Notes = append(c.Notes, "curl's -d drops a file's line ends: what it sends is not what the file holds; --data-binary keeps them")
			}
		}
	}
	if c.hasBody && name != "json" {
		c.Body = append(c.Body, '&')
	}
	c.Body = append(c.Body, part...)
	if !c.hasBody {
		c.contentType = "application/x-www-form-urlencoded"
		if name == "json" {
			c.contentType = "application/json"
		}
	}
	c.hasBody = true
	return nil
}

// shellWords splits a command line as a POSIX shell does, with $'…' as bash has it.
// What a shell would expand ($name, `…`, pipes) ends it or is refused.
func shellWords(text string) (all []string, err error) {
	var word strings.Builder
	inWord := false
	flush := func() {
		if inWord {
			all = append(all, word.String())
			word.Reset()
			inWord = false
		}
	}
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case b == '\\' && i+1 < len(text):
			i++
			switch {
			case text[i] == '\n':
			case text[i] == '\r' && i+1 < len(text) && text[i+1] == '\n':
				i++
			default:
				word.WriteByte(text[i])
				inWord = true
			}
		case b == ' ' || b == '\t' || b == '\r':
			flush()
		case b == '\n' || b == '|' || b == ';' || b == '>' || b == '&':
			flush()
			if len(all) == 0 {
				return nil, errors.New("the command is empty")
			}
			return all, nil // what follows is another command
		case b == '\'':
			end := strings.IndexByte(text[i+1:], '\'')
			if end < 0 {
				return nil, errors.New("a single quotation mark is not closed")
			}
			word.WriteString(text[i+1 : i+1+end])
			i += end + 1
			inWord = true
		case b == '"':
			n, err := doubleQuoted(text[i+1:], &word)
			if err != nil {
				return nil, err
			}
			i += n
			inWord = true
		case b == '$' && strings.HasPrefix(text[i+1:], "'"):
			n, err := ansiQuoted(text[i+2:], &word)
			if err != nil {
				return nil, err
			}
			i += n + 1
			inWord = true
		case b == '$' || b == '`':
			return nil, errors.New("it uses what a shell would put in ($ or `): put the text there itself")
		default:
			word.WriteByte(b)
			inWord = true
		}
	}
	flush()
	if len(all) == 0 {
		return nil, errors.New("the command is empty")
	}
	return all, nil
}

// doubleQuoted reads up to the closing mark, and says how long that is with it.
func doubleQuoted(text string, word *strings.Builder) (int, error) {
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case b == '"':
			return i + 1, nil
		case b == '\\' && i+1 < len(text):
			i++
			switch next := text[i]; next {
			case '$', '`', '"', '\\':
				word.WriteByte(next)
			case '\n':
			default:
				word.WriteByte('\\')
				word.WriteByte(next)
			}
		case b == '$' || b == '`':
			return 0, errors.New("it uses what a shell would put in ($ or `): put the text there itself")
		default:
			word.WriteByte(b)
		}
	}
	return 0, errors.New("a double quotation mark is not closed")
}

var ansiEscapes = map[byte]byte{'n': '\n', 't': '\t', 'r': '\r', '\\': '\\', '\'': '\'', '"': '"', '?': '?', 'a': 7, 'b': 8, 'e': 27, 'E': 27, 'f': 12, 'v': 11}

// ansiQuoted reads bash's $'…', which browsers use for what they copy as curl.
func ansiQuoted(text string, word *strings.Builder) (int, error) {
	for i := 0; i < len(text); i++ {
		b := text[i]
		if b == '\'' {
			return i + 1, nil
		}
		if b != '\\' || i+1 >= len(text) {
			word.WriteByte(b)
			continue
		}
		i++
		next := text[i]
		digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[next]
		switch plain, ok := ansiEscapes[next]; {
		case ok:
			word.WriteByte(plain)
		case digits > 0:
			n := 0
			for n < digits && i+1+n < len(text) && strings.IndexByte("0123456789abcdefABCDEF", text[i+1+n]) >= 0 {
				n++
			}
			code, err := strconv.ParseUint(text[i+1:i+1+n], 16, 32)
			if err != nil {
				return 0, errors.New("an escape in $'…' has no digits")
			}
			if next == 'x' {
				word.WriteByte(byte(code))
			} else {
				word.WriteRune(rune(code))
			}
			i += n
		default:
			return 0, errors.New("an escape in $'…' is not known")
		}
	}
	return 0, errors.New("a $' is not closed")
}

var (
	traceLine  = regexp.MustCompile(`^(?:\* |> |< |[{}] \[|\d\d:\d\d:\d\d\.\d+ |== Info: |=> Send |<= Recv )`)
	traceStamp = regexp.MustCompile(`^\d\d:\d\d:\d\d\.\d+ `)
	traceDump  = regexp.MustCompile(`^([0-9a-f]{4,8}): (.*)$`)
	traceHex   = regexp.MustCompile(`^((?:[0-9a-f]{2} ){1,16})`)
)

// parseTrace reads what curl -v, --trace or --trace-ascii prints of a request. -v
// shows no body, --trace-ascii not every byte of it.
func parseTrace(text string) (Request, error) {
	var head []string // lines of -v
	var sent [2]trace // header and data
	section, ascii := -1, false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(traceStamp.ReplaceAllString(line, ""), "\n")
		if l, ok := strings.CutPrefix(line, ">"); ok {
			l = strings.TrimSuffix(strings.TrimPrefix(l, " "), "\r")
			if requestLine.MatchString(l) {
				head = nil // of a redirect's or retry's requests the last counts
			}
			if l != "" {
				head = append(head, l)
			}
			continue
		}
		switch {
		case strings.HasPrefix(line, "=> Send header"):
			section = 0
			sent = [2]trace{}
		case strings.HasPrefix(line, "=> Send data"):
			section = 1
			sent[1].next()
		case strings.HasPrefix(line, "<= ") || strings.HasPrefix(line, "== ") || strings.HasPrefix(line, "=> "):
			section = -1
		case section >= 0:
			m := traceDump.FindStringSubmatch(strings.TrimSuffix(line, "\r"))
			if m == nil {
				return Request{}, errors.New("curl trace: a line among what was sent has no offset")
			}
			offset, err := strconv.ParseUint(m[1], 16, 31)
			if err != nil {
				return Request{}, errors.New("curl trace: an offset is no number")
			}
			if section == 0 && offset == 0 { // a method is no hex
				ascii = !traceHex.MatchString(m[2] + " ")
			}
			if err := sent[section].add(int(offset), m[2], ascii); err != nil {
				return Request{}, fmt.Errorf("curl trace: %w", err)
			}
		}
	}
	raw := strings.Join(head, "\r\n") + "\r\n\r\n"
	if header := sent[0].bytes(); len(header) > 0 {
		raw = strings.TrimRight(string(header), "\r\n") + "\r\n\r\n" + string(sent[1].bytes())
	} else if len(head) == 0 {
		return Request{}, errors.New("curl trace: it shows no request that was sent")
	}
	r, err := parseHTTP([]byte(raw))
	if err != nil {
		return Request{}, fmt.Errorf("curl trace: %w", err)
	}
	switch {
	case len(head) > 0:
		r.Notes = append(r.Notes, "curl -v does not show the body that was sent; give it with --body FILE, or record with --trace")
	case ascii:
		r.Lossy = true
		r.Notes = append(r.Notes, "--trace-ascii shows a point for bytes that are no printable ASCII: the body may not be what was sent; --trace keeps them")
	}
	return r, nil
}

// trace puts a dump's lines together. Each block counts from zero again.
type trace struct{ done, block []byte }

func (t *trace) next() {
	t.done = append(t.done, t.block...)
	t.block = nil
}

func (t *trace) bytes() []byte { return append(t.done, t.block...) }

func (t *trace) add(offset int, text string, ascii bool) error {
	switch missing := offset - len(t.block); {
	case missing == 2 && ascii: // --trace-ascii breaks its lines at CRLF
		t.block = append(t.block, '\r', '\n')
	case missing != 0:
		return errors.New("an offset does not follow from the line before")
	}
	if ascii {
		t.block = append(t.block, text...)
		return nil
	}
	b, err := hex.DecodeString(strings.ReplaceAll(traceHex.FindString(text+" "), " ", ""))
	if err != nil {
		return errors.New("a line is not in hex")
	}
	t.block = append(t.block, b...)
	return nil
}
