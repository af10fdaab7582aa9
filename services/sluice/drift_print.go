package main

import (
	"fmt"
	"strings"

	"sluice/pkg/order"
	"sluice/services/reconciler"
	"sluice/services/sluice/terminal"
)

// driftKinds say for people what differs, and what to do.
var driftKinds = map[reconciler.DriftKind]struct{ what, do string }{
	reconciler.MissingHere:  {"missing here", "run it again with --feed, or leave it to the sweep; then find out why no webhook came"},
	reconciler.MissingThere: {"missing there", "is it this account's and of this mode? sluice explain PAYMENT shows who said so"},
	reconciler.OtherAmount:  {"other amount", "sluice explain ORDER; a person must say which holds"},
	reconciler.OtherStatus:  {"other status", "sluice explain PAYMENT; ship nothing until the provider says that it is paid"},
	reconciler.OtherRefunds: {"other refunds", "sluice explain PAYMENT; look for the refund at the provider, do not send it again"},
	reconciler.NotApplied:   {"held here", "sluice explain PAYMENT says what it waits for; sluice review list"},
}

// printDrift prints for people what differs.
func printDrift(p *terminal.Printer, r driftReport) {
	p.Title("The providers' day of " + r.Day)
	rows := [][]string{{"source", "provider", "listed", "asked about", "payments", "differences", "not compared"}}
	differ := 0
	for _, s := range r.Sources {
		differ += len(s.Differences)
		rows = append(rows, []string{s.Source, s.Provider, number(int64(s.Listed)), number(int64(s.Asked)), number(int64(s.Payments)),
			figure(p, int64(len(s.Differences))), figure(p, int64(len(s.NotCompared)))})
	}
	p.Table(right(rows, 2))
	for _, kind := range []reconciler.DriftKind{reconciler.MissingHere, reconciler.MissingThere, reconciler.OtherStatus, reconciler.OtherAmount,
		reconciler.OtherRefunds, reconciler.NotApplied} {
		printKind(p, r, kind)
	}
	if r.notCompared() > 0 {
		p.Title("Not compared")
		rows := [][]string{{"source", "payment", "why"}}
		for _, s := range r.Sources {
			for _, n := range s.NotCompared {
				rows = append(rows, []string{n.Source, n.Payment, p.Yellow(n.Why)})
			}
		}
		p.Table(rows)
	}
	if len(r.Unasked) > 0 {
		p.Line("\n  %s", p.Dim("without a lookup, so that nobody can be asked: "+strings.Join(r.Unasked, ", ")))
	}
	if r.Fed > 0 {
		p.Line("\n  %s", p.Green(fmt.Sprintf("%d events were written into the raw topic", r.Fed)))
	}
	verdict := p.Green("nothing differs")
	switch {
	case differ == 1:
		verdict = p.Red("1 difference")
	case differ > 1:
		verdict = p.Red(fmt.Sprintf("%d differences", differ))
	case r.notCompared() > 0:
		verdict = p.Yellow("nothing that could be compared differs")
	}
	p.Line("\n%s", verdict)
}

// printKind prints the differences of one kind.
func printKind(p *terminal.Printer, r driftReport, kind reconciler.DriftKind) {
	rows := [][]string{{"source", "order", "payment", "the provider says", "here"}}
	for _, s := range r.Sources {
		for _, d := range s.Differences {
			if d.Kind == kind {
				rows = append(rows, []string{d.Source, d.Order, d.Payment, sides(d.There), sides(d.Here)})
			}
		}
	}
	if len(rows) == 1 {
		return
	}
	p.Title(strings.ToUpper(driftKinds[kind].what[:1]) + driftKinds[kind].what[1:])
	p.Table(rows)
	p.Line("  %s", p.Dim(driftKinds[kind].do))
}

// sides is what one side says, in one line.
func sides(all []reconciler.Stated) string {
	var parts []string
	for _, s := range all {
		text := strings.ReplaceAll(s.Fact.String(), "_", " ")
		if s.Currency != "" && s.Fact != order.KindFailed {
			text += " " + money(s.Amount, s.Currency)
		}
		if s.Reason != "" {
			text += " (held: " + strings.ReplaceAll(s.Reason, "_", " ") + ")"
		}
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}
