package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/services/processor"
	"sluice/services/sluice/terminal"
)

// deadLetter is what show says.
type deadLetter struct {
	postgres.DeadLetterSummary
	Event   string       `json:"event,omitempty"` // the record's key, as text
	Headers []deadHeader `json:"headers"`
	Now     deadNow      `json:"now"`
	Acts    []deadAct    `json:"acts,omitempty"`
}

// deadHeader is one header; Value is only there of what can hold no credential.
type deadHeader struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
	Bytes int    `json:"bytes"`
}

type deadAct struct {
	At     time.Time `json:"at"`
	Who    string    `json:"who"`
	Action string    `json:"action"`
	Reason string    `json:"reason"`
}

// deadNow is what the bytes say by the present rules.
type deadNow struct {
	// Readable: a processor could take it over, as far as can be known without doing it.
	// Where it is false, Reason and Detail say why; Reason is "unknown" without the
	// endpoints file.
	Readable bool   `json:"readable"`
	Reason   string `json:"reason,omitempty"`
	Detail   string `json:"detail,omitempty"`
	// Records is how many it would be sent as: more than one if it is a batch.
	Records int    `json:"records,omitempty"`
	Source  string `json:"source,omitempty"`
	Event   string `json:"event,omitempty"`
	Type    string `json:"type,omitempty"`
	// OtherMode: it would change nothing, for it is of the other mode.
	OtherMode bool `json:"other_mode,omitempty"`
	// Hint: the provider would be asked before anything changes.
	Hint     bool       `json:"hint,omitempty"`
	Fact     order.Kind `json:"fact"`
	Order    string     `json:"order,omitempty"`
	Payment  string     `json:"payment,omitempty"`
	Amount   int64      `json:"amount,omitempty"`
	Currency string     `json:"currency,omitempty"`
	// Known: its event was taken over from another record.
	Known bool `json:"known,omitempty"`
}

// show puts together what there is to know about a dead letter.
func (r rules) show(ctx context.Context, store *postgres.Store, c postgres.DeadLetterCase) (deadLetter, error) {
	d := deadLetter{DeadLetterSummary: c.DeadLetterSummary, Event: strings.ToValidUTF8(string(c.Key), "�"), Headers: []deadHeader{}}
	for _, h := range c.Headers {
		shown := deadHeader{Name: strings.ToValidUTF8(h.Name, "�"), Bytes: len(h.Value)}
		if slices.ContainsFunc(event.RecordHeaders[:], func(s event.HeaderSpec) bool { return s.Name == h.Name }) {
			shown.Value = strings.ToValidUTF8(string(h.Value), "�")
		}
		d.Headers = append(d.Headers, shown)
	}
	for _, a := range c.Acts {
		d.Acts = append(d.Acts, deadAct{a.At, a.Who, a.Action, a.Reason})
	}
	if r.unknown != "" {
		d.Now = deadNow{Reason: "unknown", Detail: r.unknown}
		return d, nil
	}
	now := processor.ReadNow(r.endpoints, kafka.Record{Key: c.Key, Value: c.Body, Headers: c.Headers})
	if now.Dead != "" {
		d.Now = deadNow{Reason: now.Dead, Detail: now.Detail}
		return d, nil
	}
	d.Now = deadNow{Readable: true, Records: len(now.Records), Source: now.Event.Source, Event: now.Event.ID, Type: now.Event.Type, Hint: now.Event.Trust == event.Hint,
		Fact: now.Reading.Fact, Order: now.Reading.Order, Payment: now.Reading.Payment, Amount: now.Reading.Amount, Currency: now.Reading.Currency}
	if ep, ok := r.endpoints.Get(now.Event.Endpoint); ok {
		d.Now.OtherMode = now.Event.Mode != ep.Mode
	}
	traces, err := store.Traces(ctx, c.TopicID, []postgres.Seeker{{Place: postgres.Place{Partition: -1}, Event: now.Event}})
	if err != nil {
		return d, err
	}
	d.Now.Known = traces[0].Processed || traces[0].InSet || traces[0].Hint
	return d, nil
}

func printDeadLetters(p *terminal.Printer, found deadList) {
	if len(found.Counts) == 0 {
		p.Line("%s", p.Green("none"))
		return
	}
	if len(found.Letters) > 0 {
		rows := [][]string{{"letter", "died (UTC)", "endpoint", "of", "", "state"}}
		for _, d := range found.Letters {
			rows = append(rows, []string{place(d), stamp(d.CreatedAt), printable(d.Endpoint), words(d.Reason), p.Dim(shorten(printable(d.Detail), 60)), deadState(p, d)})
		}
		p.Table(rows)
	}
	p.Title("How many")
	rows := [][]string{{"endpoint", "died of", "open", "sent again", "discarded", "read by a replay", "oldest open (UTC)"}}
	for _, n := range found.Counts {
		oldest := ""
		if n.Oldest != nil {
			oldest = stamp(*n.Oldest)
		}
		rows = append(rows, []string{printable(n.Endpoint), words(n.Reason), number(n.Open), number(n.SentAgain), number(n.Discarded), number(n.Readable), oldest})
	}
	p.Table(rows)
	if len(found.Letters) > 0 {
		p.Line("\n%s", p.Dim("sluice dead-letters show LETTER"))
	}
}

func place(d postgres.DeadLetterSummary) string { return fmt.Sprintf("%d/%d", d.Partition, d.Offset) }

func deadState(p *terminal.Printer, d postgres.DeadLetterSummary) string {
	switch {
	case d.SettledAt != nil && d.SettledBy == "":
		return p.Dim("read by a replay " + stamp(*d.SettledAt))
	case d.SettledAt != nil:
		return p.Dim(fmt.Sprintf("%s by %s", words(string(d.SettledAs)), d.SettledBy))
	case d.ClaimedBy != "":
		return p.Yellow(fmt.Sprintf("claimed by %s until %s", d.ClaimedBy, d.ClaimedUntil.UTC().Format("15:04")))
	}
	return "open"
}

func printDeadLetter(p *terminal.Printer, d deadLetter) {
	p.Line("%s  %s", p.Bold("Dead letter "+place(d.DeadLetterSummary)), deadState(p, d.DeadLetterSummary))
	published := "not yet in the dead-letter topic"
	if d.PublishedAt != nil {
		published = "in the dead-letter topic since " + stamp(*d.PublishedAt)
	}
	p.Table([][]string{
		{"died of", words(d.Reason) + ": " + printable(d.Detail)},
		{"endpoint", printable(d.Endpoint)},
		{"lay at", fmt.Sprintf("%s, partition %d, offset %d, appended %s", d.Topic, d.Partition, d.Offset, stamp(d.AppendedAt))},
		{"kept", fmt.Sprintf("%d bytes in the database; %s", d.Size, published)},
		{"key", printable(d.Event)},
		{"review item", number(d.Item)},
	})
	p.Title("Headers")
	var rows [][]string
	for _, h := range d.Headers {
		value := shorten(printable(h.Value), 80)
		if h.Value == "" {
			value = p.Dim(fmt.Sprintf("(%d bytes, not shown)", h.Bytes))
		}
		rows = append(rows, []string{printable(h.Name), value})
	}
	p.Table(rows)
	p.Title("By the present rules")
	p.Table(nowRows(p, d.Now))
	if len(d.Acts) > 0 {
		p.Title("What people did")
		rows = nil
		for _, a := range d.Acts {
			rows = append(rows, []string{stamp(a.At), a.Who, words(a.Action), printable(a.Reason)})
		}
		p.Table(rows)
	}
	if d.SettledAt != nil {
		return
	}
	p.Title("What can be done")
	rows = nil
	if d.Now.Readable {
		rows = append(rows, []string{fmt.Sprintf("sluice dead-letters send-again %s --reason …", place(d.DeadLetterSummary)), p.Dim("it is taken over as new")})
	}
	p.Table(append(rows, []string{fmt.Sprintf("sluice dead-letters discard %s --reason …", place(d.DeadLetterSummary)), p.Dim("it counts for nothing")}))
}

func nowRows(p *terminal.Printer, n deadNow) [][]string {
	if !n.Readable {
		return [][]string{{p.Red("cannot be read"), words(n.Reason) + ": " + printable(n.Detail)}}
	}
	rows := [][]string{{p.Green("can be read"), fmt.Sprintf("event %s of %s, type %s", printable(n.Event), n.Source, printable(n.Type))}}
	if n.Records > 1 {
		rows = append(rows, []string{"", fmt.Sprintf("a batch of %d events; the first is shown", n.Records)})
	}
	says := words(n.Fact.String())
	if n.Currency != "" {
		says += " " + money(n.Amount, n.Currency)
	}
	for _, id := range []struct{ what, id string }{{"order", n.Order}, {"payment", n.Payment}} {
		if id.id != "" {
			says += ", " + id.what + " " + printable(id.id)
		}
	}
	rows = append(rows, []string{"states", says})
	switch {
	case n.OtherMode:
		rows = append(rows, []string{"", p.Yellow("it is of the other mode, and would change nothing")})
	case n.Hint:
		rows = append(rows, []string{"", "nobody has signed it: the provider would be asked first"})
	}
	if n.Known {
		rows = append(rows, []string{"", p.Yellow("its event was taken over from another record; sent again it would be a duplicate")})
	}
	return rows
}

func printActed(p *terminal.Printer, r acted, verb string) {
	if len(r.Done)+len(r.Others) == 0 {
		p.Line("there is none")
		return
	}
	if len(r.Done) > 0 {
		p.Line("%s %s: %d", p.Green("✓"), verb, len(r.Done))
	}
	for _, letter := range slices.Sorted(maps.Keys(r.Others)) {
		p.Line("%s %s: %s", p.Red("✗"), letter, r.Others[letter])
	}
}
