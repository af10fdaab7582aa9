package recorded

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"regexp"
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

var ansiEscapes = map[byte]byte{'n': '\n', 't': '\t', 'r': '\r', '\\': '\\', '\'': '\'', '"': '"', '?': '?', 'a': 7, 'b': 8, 'e': 27, 'E': 27, 'f': 12, 'v': 11}
