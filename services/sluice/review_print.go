package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/services/sluice/terminal"
)

func printReviewItems(p *terminal.Printer, items []postgres.ReviewSummary) {
	if len(items) == 0 {
		p.Line("%s", p.Green("nothing waits for a person"))
		return
	}
	rows := [][]string{{"item", "since (UTC)", "order", "what", "state"}}
	for _, i := range items {
		what := words(i.Detail)
		if i.Kind != postgres.ReviewHeld {
			what = words(string(i.Kind)) + ": " + i.Detail
		}
		rows = append(rows, []string{fmt.Sprint(i.ID), stamp(i.CreatedAt), i.Order, shorten(what, 80), reviewState(p, i)})
	}
	p.Table(rows)
	p.Line("\n%s", p.Dim("sluice review show ITEM"))
}

func reviewState(p *terminal.Printer, i postgres.ReviewSummary) string {
	switch {
	case i.SettledAt != nil && i.SettledBy == "":
		return p.Dim(words(string(i.Decision)))
	case i.SettledAt != nil:
		return p.Dim(fmt.Sprintf("%s by %s", words(string(i.Decision)), i.SettledBy))
	case i.ClaimedBy != "":
		return p.Yellow(fmt.Sprintf("claimed by %s until %s", i.ClaimedBy, i.ClaimedUntil.UTC().Format("15:04")))
	}
	return "open"
}

// asks are the kinds of item, beside held events, whose provider can be asked.
var asks = map[postgres.ReviewKind]bool{postgres.ReviewLookup: true, postgres.ReviewHanging: true, postgres.ReviewContradicts: true}

func printReviewCase(p *terminal.Printer, c postgres.ReviewCase) {
	p.Line("%s  %s  %s", p.Bold(fmt.Sprintf("Item %d", c.ID)), words(string(c.Kind)), reviewState(p, c.ReviewSummary))
	p.Line("  %s", c.Detail)
	if o := c.OrderNow; o != nil {
		p.Title("The order")
		p.Table(orderRows(o))
	}
	if e := c.Event; e != nil {
		p.Title("The event")
		p.Table(eventRows(e, c.Bytes))
	}
	if c.OnAccept != nil {
		p.Title("If it were accepted")
		printPreview(p, c)
		if o := c.LostTo; o != nil {
			p.Line("  %s", p.Yellow(fmt.Sprintf("%s of %s came first by seconds only, by the clocks of two senders", o.ID, o.Source)))
		}
	}
	if c.SettledAt != nil {
		return
	}
	p.Title("What can be done")
	rows := [][]string{{fmt.Sprintf("sluice review claim %d", c.ID), p.Dim("first")}}
	if c.Kind == postgres.ReviewHeld {
		rows = append(rows,
			[]string{fmt.Sprintf("sluice review accept %d --reason …", c.ID), p.Dim("apply it anyway; --amount for another amount")},
			[]string{fmt.Sprintf("sluice review link %d --to ORDER --reason …", c.ID), p.Dim("it belongs to another order")},
			[]string{fmt.Sprintf("sluice review refetch %d --reason …", c.ID), p.Dim("ask the provider")})
	}
	if c.Kind == postgres.ReviewDeadLetter {
		rows = append(rows, []string{"sluice dead-letters show " + c.Subject, p.Dim("what it is, and whether it can be read now")},
			[]string{"sluice dead-letters send-again " + c.Subject + " --reason …", p.Dim("after what it died of was mended")})
	}
	if asks[c.Kind] {
		rows = append(rows, []string{fmt.Sprintf("sluice review refetch %d --reason …", c.ID), p.Dim("ask the provider at once")})
	}
	if c.Kind == postgres.ReviewEffectFailed || c.Kind == postgres.ReviewEffectOutdated {
		rows = append(rows, []string{"sluice effects show " + c.Subject, p.Dim("what was sent, and what was answered")})
	}
	if c.Kind == postgres.ReviewEffectFailed {
		rows = append(rows, []string{"sluice effects send-again " + c.Subject + " --reason …", p.Dim("under the same key")})
	}
	p.Table(append(rows, []string{fmt.Sprintf("sluice review dismiss %d --reason …", c.ID), p.Dim("it counts for nothing")}))
}

func orderRows(o *postgres.OrderState) [][]string {
	rows := [][]string{{"order", cmp.Or(o.Order, "(known by its payment only)")}}
	if !o.Registered {
		return append(rows, []string{"status", "the shop has not registered it"})
	}
	return append(rows,
		[]string{"status", fmt.Sprintf("%s, version %d", words(o.Status.String()), o.Version)},
		[]string{"worth", money(o.Amount, o.Currency)},
		[]string{"paid", money(o.Paid, o.Currency)},
		[]string{"refunded", money(o.Refunded, o.Currency)},
		[]string{"dispute", o.Dispute.String()})
}

func eventRows(e *postgres.StoryEvent, b *postgres.HeldBytes) [][]string {
	says := words(e.Kind.String())
	if e.Currency != "" {
		says += " " + money(e.Amount, e.Currency)
	}
	verdict := words(e.Verdict.String())
	if e.Reason != order.NoReason {
		verdict += ": " + words(e.Reason.String())
	}
	if !b.HeldSince.IsZero() {
		verdict += ", since " + stamp(b.HeldSince)
	}
	happened := "the provider does not say"
	if !e.OccurredAt.IsZero() {
		happened = e.OccurredAt.UTC().Format(time.RFC3339)
	}
	rows := [][]string{{"event", fmt.Sprintf("%s of %s, type %s", e.ID, e.Source, e.Type)}, {"says", says}, {"happened", happened}, {"verdict", verdict}}
	if e.Payment != "" {
		rows = append(rows, []string{"payment", e.Payment})
	}
	if e.Object != "" {
		rows = append(rows, []string{"object", e.Object})
	}
	bytes := fmt.Sprintf("raw topic, partition %d, offset %d", b.Partition, b.Offset)
	if b.Kept >= 0 {
		bytes += fmt.Sprintf("; %d bytes are kept in the database until it is settled", b.Kept)
	}
	return append(rows, []string{"bytes", bytes})
}

func printPreview(p *terminal.Printer, c postgres.ReviewCase) {
	if c.OnAccept.Verdict == order.Held {
		p.Line("  it would still be held: %s", words(c.OnAccept.Reason.String()))
		return
	}
	if len(c.OnAccept.Changes) == 0 {
		p.Line("  the order would stay as it is")
		return
	}
	var rows [][]string
	for _, s := range c.OnAccept.Changes {
		row := []string{words(s.From.String()) + " → " + p.Bold(words(s.To.String())),
			"paid " + money(s.Paid, c.OrderNow.Currency), "refunded " + money(s.Refunded, c.OrderNow.Currency)}
		if s.Dispute != order.NoDispute {
			row = append(row, "dispute "+s.Dispute.String())
		}
		if s.Correction {
			row = append(row, p.Yellow("correction"))
		}
		rows = append(rows, row)
	}
	p.Table(rows)
}

func printDecided(p *terminal.Printer, d postgres.Decision, done postgres.Decided) {
	switch {
	case done.Repeated:
		p.Line("item %d: %s was decided before; nothing was done now", d.Item, words(string(d.Action)))
	case done.After == nil:
		p.Line("%s item %d: %s", p.Green("✓"), d.Item, words(string(d.Action)))
	default:
		p.Line("%s item %d: %s", p.Green("✓"), d.Item, words(string(d.Action)))
		p.Line("  before: %s", done.Before)
		p.Line("  now:    %s", done.After)
	}
}

// money is minor units for people.
func money(minor int64, currency string) string {
	text, err := order.FormatDecimal(minor, currency)
	if err != nil {
		return strings.TrimSpace(fmt.Sprintf("%d %s", minor, currency))
	}
	return text + " " + currency
}

func words(name string) string { return strings.ReplaceAll(name, "_", " ") }

func shorten(text string, n int) string {
	if r := []rune(text); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return text
}
