package lookup

import (
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// behindLast: the place behind a page is the id of its last item.
func behindLast(id, more string) func([]byte, [][]byte, string) (string, error) {
	return func(body []byte, items [][]byte, _ string) (string, error) {
		at, ok := member(body, more)
		switch {
		case !ok:
			return "", errNoPage
		case string(at) == "false":
			return "", nil
		case string(at) != "true" || len(items) == 0:
			return "", errNoPage
		}
		last := text(items[len(items)-1], id)
		if last == "" {
			return "", errNoPage
		}
		return last, nil
	}
}

// cursor: an answer carries the place behind it, and none at the end.
func cursor(path string) func([]byte, [][]byte, string) (string, error) {
	return func(body []byte, _ [][]byte, _ string) (string, error) { return text(body, path), nil }
}

// counted: a place is how many items lie before it; an empty page is behind the last,
// for a page may hold less than was asked for.
func counted(_ []byte, items [][]byte, at string) (string, error) {
	if len(items) == 0 {
		return "", nil
	}
	before := 0
	if at != "" {
		var err error
		if before, err = strconv.Atoi(at); err != nil || before < 0 {
			return "", errNoPage
		}
	}
	return strconv.Itoa(before + len(items)), nil
}

// numbered: pages are numbered from 1, and the answer says how many there are.
func numbered(total string) func([]byte, [][]byte, string) (string, error) {
	return func(body []byte, items [][]byte, at string) (string, error) {
		pages, err := strconv.Atoi(text(body, total))
		if err != nil {
			return "", errNoPage
		}
		page := 1
		if at != "" {
			if page, err = strconv.Atoi(at); err != nil || page < 1 {
				return "", errNoPage
			}
		}
		if page >= pages || len(items) == 0 {
			return "", nil
		}
		return strconv.Itoa(page + 1), nil
	}
}

// linked: the answer carries the next page's address. Only its query counts, and only
// if it leads to the same list: credentials go nowhere else.
func linked(path string, href func(body []byte) string) func([]byte, [][]byte, string) (string, error) {
	return func(body []byte, items [][]byte, _ string) (string, error) {
		address := href(body)
		if address == "" || len(items) == 0 {
			return "", nil
		}
		u, err := url.Parse(address)
		if err != nil || !strings.HasSuffix(u.Path, path) || u.RawQuery == "" {
			return "", errNoPage
		}
		return u.RawQuery, nil
	}
}

// hrefAt is the address that lies at a path.
func hrefAt(path string) func([]byte) string {
	return func(body []byte) string { return text(body, path) }
}

// relNext is the address of the link named next (RFC 8288 in JSON, as PayPal has it).
func relNext(body []byte) string {
	var d paypalDocument
	if json.Unmarshal(body, &d) != nil {
		return ""
	}
	for _, l := range d.Links {
		if l.Rel == "next" {
			return l.Href
		}
	}
	return ""
}

func unix(t time.Time) string     { return strconv.FormatInt(t.Unix(), 10) }
func rfc3339(t time.Time) string  { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
func calendar(t time.Time) string { return t.UTC().Format(time.DateOnly) }
