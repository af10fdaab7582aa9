package demo

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"sluice/pkg/audit"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
)

// report prints the stories, the topic and the books, and says whether all is as
// it must be.
func (d Demo) report(stories []story, ends map[string]postgres.Story, t *topic, before, books audit.Books, sent answers) bool {
	good := true
	p := d.Out
	for _, s := range stories {
		end := ends[s.id]
		mark, problem := p.Green("✓"), s.problem(end, t.of(s.id))
		if problem != "" {
			mark, good = p.Red("✗ "+problem), false
		}
		p.Line("\n%s  %s, %s  %s", p.Bold(s.id), s.title, money(s.amount, s.currency), mark)
		d.timeline(s, end)
	}
	p.Line("\n%s", p.Bold("Beside the orders"))
	p.Table([][]string{
		{"customer.updated", "a type that means nothing here", p.Dim("kept, no change")},
		{"a body cut off", "authentic, but nobody can read it", p.Yellow("dead letter, on webhooks.dead-letters.v1")},
	})
	d.topic(stories, t)
	return d.books(before, books, sent) && good
}

// timeline prints what the provider says happened, in its own order, and the
// verdicts; then what was published.
func (d Demo) timeline(s story, end postgres.Story) {
	p := d.Out
	var rows [][]string
	for _, e := range end.Events {
		if e.Kind == order.KindRegistered {
			when := "before its webhooks"
			if s.late {
				when = "after its webhooks"
			}
			rows = slices.Insert(rows, 0, []string{"shop", "order.registered", money(e.Amount, e.Currency), p.Dim(when)})
			continue
		}
		rows = append(rows, []string{clock(e.OccurredAt), e.Type, money(e.Amount, e.Currency), d.verdict(e)})
	}
	for _, h := range s.events {
		if h.forged {
			rows = append(rows, []string{"", "a wrong signature", money(h.fact.Amount, h.fact.Currency), p.Red("refused with 401, nothing kept")})
		}
		if h.other {
			rows = append(rows, []string{"", "an event of the other mode", money(h.fact.Amount, h.fact.Currency), p.Dim("kept, no change")})
		}
	}
	p.Table(rows)
	path := ""
	for i, h := range end.History {
		if i > 0 {
			path += " → "
		}
		path += d.status(h.To)
		if h.From == h.To && h.Dispute != order.NoDispute {
			path += " (dispute " + h.Dispute.String() + ")"
		}
		if h.Correction {
			path += p.Yellow(" (correction)")
		}
	}
	p.Line("  = %s", path)
}

func (d Demo) verdict(e postgres.StoryEvent) string {
	switch e.Verdict {
	case order.Applied:
		return d.Out.Green("applied")
	case order.Held:
		return d.Out.Yellow("held: " + e.Reason.String())
	}
	text := e.Verdict.String()
	if e.Reason != order.NoReason {
		text += ": " + e.Reason.String()
	}
	return d.Out.Dim(text)
}

func (d Demo) status(s order.Status) string {
	switch s {
	case order.Paid:
		return d.Out.Green(s.String())
	case order.Failed, order.Cancelled:
		return d.Out.Red(s.String())
	}
	return s.String()
}

// topic prints the messages as a consumer got them.
func (d Demo) topic(stories []story, t *topic) {
	d.Out.Title("orders.status.v1, as consumed")
	rows := [][]string{{"partition", "offset", "order", "version", "status", "paid", "refunded", "cause", ""}}
	for _, s := range stories {
		for _, m := range t.of(s.id) {
			note := ""
			if m.Correction {
				note = d.Out.Yellow("correction")
			}
			if m.Dispute != order.NoDispute {
				note += " dispute " + m.Dispute.String()
			}
			rows = append(rows, []string{fmt.Sprint(m.partition), fmt.Sprint(m.offset), m.OrderID, fmt.Sprint(m.Version), d.status(m.Status),
				money(m.Paid, m.Currency), money(m.Refunded, m.Currency), m.Cause.Source + "/" + m.Cause.EventID, note})
		}
	}
	d.Out.Table(rows)
}

// books prints the ledger; what lay there before the day is counted too. It is
// right if nothing is unaccounted and the day's 2xx are in the topic.
func (d Demo) books(before, b audit.Books, sent answers) bool {
	p := d.Out
	p.Title("The books")
	rows := [][]string{{"accepted (records in the raw topic)", fmt.Sprintf("%6d", b.Accepted)}}
	for _, v := range []order.Verdict{order.Applied, order.NoChange, order.Duplicate, order.Held, order.Dead} {
		rows = append(rows, []string{"  " + v.String(), fmt.Sprintf("%6d", b.Verdicts[v])})
	}
	rows = append(rows, []string{"  in flight", fmt.Sprintf("%6d", b.InFlight)})
	unaccounted := fmt.Sprintf("%6d", b.Unaccounted())
	if b.Unaccounted() == 0 {
		unaccounted = p.Green(unaccounted)
	} else {
		unaccounted = p.Red(unaccounted)
	}
	rows = append(rows, []string{p.Bold("unaccounted"), unaccounted})
	p.Table(rows)
	if got, want := b.Accepted-before.Accepted, int64(sent[http.StatusOK]); got < want {
		p.Line("  %s", p.Red(fmt.Sprintf("%d webhooks were answered 2xx, %d are in the topic", want, got)))
		return false
	}
	return b.Unaccounted() == 0 && b.InFlight == 0
}

func money(minor int64, currency string) string {
	text, err := order.FormatDecimal(minor, currency)
	if err != nil {
		return ""
	}
	return text + " " + currency
}

func clock(t time.Time) string {
	if t.IsZero() {
		return "--:--:--"
	}
	return t.Local().Format("15:04:05")
}
