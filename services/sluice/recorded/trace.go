package recorded

import (
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

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
