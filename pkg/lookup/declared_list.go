package lookup

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/pkg/declare"
	"sluice/pkg/webhook"
)

// Listed is one list of what happened in a span of time.
type Listed struct {
	// Path is below the address, with {since} and {until} in its query; Time is how these
	// are written: rfc3339 (the default), unix or date.
	Path string `yaml:"path"`
	Time string `yaml:"time"`
	// Pages says where the list is, and how it goes on.
	Pages *Pages `yaml:"pages"`
	// Holds is "events", each the body of a webhook, or "objects". Of these ID leads to
	// the id and Payment to that of their payment, where it is another one: the payment is
	// asked about if Readings state what is not known.
	Holds    string     `yaml:"holds"`
	ID       string     `yaml:"id"`
	Payment  string     `yaml:"payment"`
	Readings []Document `yaml:"readings"`
}

var timeForms = map[string]func(time.Time) string{"": rfc3339, "rfc3339": rfc3339, "unix": unix, "date": calendar}

// listing makes the lists ready and notes what is wrong with them. Their documents are
// compiled with those of the look-ups.
func (d Declaration) listing(documents map[string][]statement, problem func(string, ...any)) *Listing {
	out := &Listing{Docs: "the endpoints file", Says: "what the endpoints file declares", Every: time.Hour, Back: day, OwnEvents: true}
	for i, l := range d.List {
		at := fmt.Sprintf("list[%d]", i)
		wrong := func(format string, args ...any) { problem(at+"."+format, args...) }
		path, query, _ := strings.Cut(l.Path, "?")
		rest := strings.NewReplacer("{since}", "", "{until}", "").Replace(query)
		switch {
		case !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//"):
			wrong("path: %q does not begin with one /: it is below base_url", l.Path)
		case !strings.Contains(query, "{since}") || !strings.Contains(query, "{until}"):
			wrong("path: %q does not hold {since} and {until} in its query", l.Path)
		case strings.ContainsAny(path+rest, "{}# ") || strings.Contains(path, ".."):
			wrong("path: %q holds what is no path, or another placeholder than {since} and {until}", l.Path)
		}
		form, ok := timeForms[l.Time]
		if !ok {
			wrong("time: %q is none of rfc3339, unix, date", l.Time)
		}
		made := list{path: path, query: query, form: form}
		if l.Pages == nil {
			wrong("pages: missing: say where the list is and how it goes on; all of it must be read")
		} else {
			l.Pages.check(wrong)
			made.items = l.Pages.List
			made.page, made.next = l.Pages.following(path)
		}
		switch {
		case l.Holds == "events" && (l.ID != "" || l.Payment != "" || len(l.Readings) > 0):
			wrong("holds: events are read as webhooks are: remove id, payment and readings")
		case l.Holds == "events":
			made.event = whole
		case l.Holds != "objects":
			wrong("holds: %q is neither events nor objects", l.Holds)
		case len(d.Payment) == 0:
			wrong("holds: an object is asked about by its payment, and `payment` says nothing of how")
		case l.ID == "" || len(l.Readings) == 0:
			wrong("readings: objects need id and readings: say what an item states")
		default:
			out.OwnEvents = false
			made.document, made.id, made.payment = at, l.ID, l.Payment
			for j, doc := range l.Readings {
				if _, err := webhook.NewReader(doc.Layout, doc.Given...); err != nil {
					for _, err := range declare.Each(err) {
						wrong("readings[%d].%s", j, strings.TrimPrefix(err.Error(), "reading."))
					}
				}
				if len(doc.Each) > 0 || !slices.Equal(doc.ID, webhook.Paths{l.ID}) {
					wrong("readings[%d]: each item is read by itself, without each, and its id is the list's", j)
				}
				documents[at] = append(documents[at], statement{given: doc.Given, layout: doc.Layout})
			}
		}
		out.lists = append(out.lists, made)
	}
	return out
}

// following is Pages as the lists of sweeps have it: the parameter of a place, and how
// to come to the next one.
func (p Pages) following(path string) (parameter string, next func([]byte, [][]byte, string) (string, error)) {
	switch {
	case p.Cursor != "":
		return p.Parameter, cursor(p.Cursor)
	case p.Page != "":
		return p.Page, func(_ []byte, items [][]byte, at string) (string, error) {
			n, err := strconv.Atoi(cmp.Or(at, "1"))
			if err != nil || n < 1 {
				return "", errNoPage
			}
			if len(items) == 0 {
				return "", nil
			}
			return strconv.Itoa(n + 1), nil
		}
	case p.Skip != "":
		return p.Skip, counted
	}
	return "", linked(path, hrefAt(p.Link))
}
