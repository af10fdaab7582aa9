package main

import (
	"fmt"
	"strings"

	"sluice/pkg/audit"
	"sluice/pkg/order"
	"sluice/services/sluice/terminal"
)

// printAudit prints the books for people: a row an hour, below it its endpoints.
func printAudit(p *terminal.Printer, r *audit.Report, findings []audit.Finding) {
	head := []string{"hour (UTC)", "endpoint", "accepted"}
	for _, v := range audit.Verdicts {
		head = append(head, strings.ReplaceAll(v.String(), "_", " "))
	}
	rows := [][]string{append(head, "in flight", "unaccounted")}
	sum := audit.Line{Endpoints: map[string]map[order.Verdict]int64{}}
	for _, l := range r.Lines {
		rows = append(rows, auditRow(p, span(l), p.Dim("all"), l.Accepted, l.Verdicts(), number(l.InFlight), figure(p, l.Unaccounted())))
		for _, name := range l.Names() {
			counted := int64(0)
			for _, n := range l.Endpoints[name] {
				counted += n
			}
			accepted, off := counted, ""
			if l.ByEndpoint != nil && l.Expired == 0 && l.InFlight == 0 {
				accepted = l.ByEndpoint[name]
				off = figure(p, accepted-counted)
			}
			rows = append(rows, auditRow(p, "", name, accepted, l.Endpoints[name], "", off))
		}
		sum.Accepted += l.Accepted
		sum.InFlight += l.InFlight
		for name, verdicts := range l.Endpoints {
			if sum.Endpoints[name] == nil {
				sum.Endpoints[name] = map[order.Verdict]int64{}
			}
			for v, n := range verdicts {
				sum.Endpoints[name][v] += n
			}
		}
	}
	rows = append(rows, auditRow(p, p.Bold("total"), "", sum.Accepted, sum.Verdicts(), number(sum.InFlight), figure(p, r.Unaccounted())))
	p.Title("The books")
	p.Table(right(rows, 2))
	notes(p, r)
	if len(findings) > 0 {
		p.Title("What does not add up")
		rows := [][]string{{"problem", "source", "event", "partition", "offset", "appended (UTC)", ""}}
		for _, f := range findings {
			rows = append(rows, []string{p.Red(strings.ReplaceAll(f.Problem, "_", " ")), f.Source, f.EventID, fmt.Sprint(f.Partition), fmt.Sprint(f.Offset),
				f.AppendedAt.UTC().Format("2006-01-02 15:04:05"), p.Dim(f.Detail)})
		}
		p.Table(rows)
	}
	verdict := p.Green("the books add up")
	if n := r.Unaccounted(); n != 0 || len(findings) > 0 {
		verdict = p.Red(fmt.Sprintf("%d unaccounted", n))
	}
	p.Line("\n%s", verdict)
}

func notes(p *terminal.Printer, r *audit.Report) {
	if f := r.Books.Former; f != (audit.Sums{}) {
		p.Line("\n  raw topics that are gone: %d applied, %d counted", f.Accepted, f.Counted)
	}
	for _, g := range r.Gaps {
		p.Line("\n  %s", p.Yellow(fmt.Sprintf("partition %d: offsets %d to %d expired before they were read; settle the review item to write them off", g.Partition, g.From, g.To)))
	}
	for _, l := range r.Lookups {
		p.Line("\n  %s", p.Yellow(fmt.Sprintf("%s: %d look-ups at the provider wait for an answer, the oldest since %s; what is held for them is unsigned", l.Source, l.Open, stamp(l.Since))))
	}
	for _, n := range r.Truncated {
		p.Line("\n  %s", p.Yellow(fmt.Sprintf("partition %d ends before what was applied: the brokers lost records", n)))
	}
	for _, l := range r.Lines {
		if l.ByEndpoint == nil || l.Unaccounted() == 0 {
			continue
		}
		p.Line("\n  %s", p.Dim(span(l)+": where no event is named below, every record has its verdict and the count itself is wrong"))
	}
	written := int64(0)
	for _, l := range r.Lines {
		written += l.WrittenOff
	}
	if written > 0 {
		p.Line("\n  %d accepted records expired before they were read, or were left out by somebody, and are written off", written)
	}
}

func span(l audit.Line) string {
	switch {
	case l.From.IsZero() && l.Before.IsZero():
		return "all"
	case l.From.IsZero():
		return "before " + stamp(l.Before)
	case l.Before.IsZero():
		return "from " + stamp(l.From)
	case l.Before.Sub(l.From) > 3600e9:
		return stamp(l.From) + " to " + stamp(l.Before)
	}
	return stamp(l.From)
}

func auditRow(p *terminal.Printer, first, second string, accepted int64, verdicts map[order.Verdict]int64, flight, off string) []string {
	row := []string{first, second, number(accepted)}
	for _, v := range audit.Verdicts {
		text := number(verdicts[v])
		if verdicts[v] == 0 {
			text = p.Dim(text)
		}
		row = append(row, text)
	}
	return append(row, flight, off)
}

func figure(p *terminal.Printer, n int64) string {
	if n == 0 {
		return p.Green("0")
	}
	return p.Red(number(n))
}

func number(n int64) string { return fmt.Sprint(n) }

// right aligns the columns from the given one on to the right.
func right(rows [][]string, from int) [][]string {
	widths := map[int]int{}
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], terminal.Width(cell))
		}
	}
	for _, row := range rows {
		for i := from; i < len(row); i++ {
			row[i] = strings.Repeat(" ", widths[i]-terminal.Width(row[i])) + row[i]
		}
	}
	return rows
}
