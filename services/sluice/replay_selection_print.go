package main

import (
	"fmt"
	"slices"
	"strings"

	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/services/sluice/again"
	"sluice/services/sluice/terminal"
)

func (plan *selectionPlan) print(p *terminal.Printer) {
	p.Title("Looking again at " + plan.Selected)
	plan.Outlook.Print(p)
	printTally(p, plan.Found)
	if plan.known() {
		p.Line("\n  all of them were taken over; --reapply reads them anew, under the present rules")
	}
	if f := plan.Forecast; f != nil {
		printDifferences(p, f, "becomes")
	}
}

// known: carrying the plan out would change nothing, for nothing is read anew.
func (plan *selectionPlan) known() bool {
	o := plan.Outlook
	return plan.Forecast == nil && plan.Found.Records > 0 && o.Duplicates == plan.Found.Records && o.Updated == 0
}

func printDone(p *terminal.Printer, title string, d *again.Done) {
	p.Title(title)
	c := d.AgainCounts
	var rows [][]string
	for _, row := range []struct {
		what string
		n    int64
	}{
		{"records", c.Records}, {"say something else than was read then", c.Mended}, {"state something, and did not before", c.Entered},
		{"new", c.New}, {"dead letters that can be read", c.Revived}, {"unchanged", c.Unchanged}, {"cannot be read: nothing changes", c.Dead},
		{"messages", c.Versions}, {"effects that become due", c.Effects},
	} {
		if row.n > 0 || row.what == "records" || row.what == "messages" {
			rows = append(rows, []string{"  " + row.what, number(row.n)})
		}
	}
	p.Table(right(rows, 1))
	printTally(p, &d.Tally)
	if c.Unlearnt > 0 {
		p.Line("  %s", p.Yellow(fmt.Sprintf("%d payments lead to no order any more; the events that named it say something else now", c.Unlearnt)))
	}
}

func printTally(p *terminal.Printer, t *again.Tally) {
	if t.InFlight > 0 {
		p.Line("  %d more are in flight: the processors will take them", t.InFlight)
	}
	if t.Gone == 0 {
		return
	}
	p.Line("  %s", p.Yellow(fmt.Sprintf("%d events have no bytes any more, and stay as they are:", t.Gone)))
	for _, m := range t.Missing {
		p.Line("    %s of %s, partition %d offset %d: %s", m.Event, m.Source, m.Partition, m.Offset, m.Why)
	}
}

// differenceRows is how many differing orders people are shown.
const differenceRows = 40

// printDifferences shows what differs; leads says how the two sides go together.
func printDifferences(p *terminal.Printer, f *again.Forecast, leads string) {
	if len(f.Orders) == 0 {
		text := fmt.Sprintf("none of %d orders differs", f.Compared)
		switch f.Compared {
		case 0:
			text = "the records lead to no order"
		case 1:
			text = "the one order that they lead to does not differ"
		}
		p.Line("\n  %s", p.Green(text))
		return
	}
	p.Line("\n  %d of %d orders differ:", len(f.Orders), f.Compared)
	rows := [][]string{{"  order", "is", leads}}
	for _, o := range f.Orders[:min(len(f.Orders), differenceRows)] {
		rows = append(rows, []string{"  " + o.Order, describeShadow(o.Live, o.Shadow), describeShadow(o.Shadow, o.Live)})
	}
	p.Table(rows)
	if n := len(f.Orders) - differenceRows; n > 0 {
		p.Line("  and %d more; --json has them all", n)
	}
}

// describeShadow is an order in few words; what other says alike is left out but for
// the status.
func describeShadow(o, other *postgres.ShadowOrder) string {
	if o == nil {
		return "not there"
	}
	if other == nil {
		other = &postgres.ShadowOrder{}
	}
	text := o.Status.String()
	if o.Status == order.StatusNone {
		text = "not registered"
	}
	if o.Paid != other.Paid {
		text += fmt.Sprintf(", paid %d", o.Paid)
	}
	if o.Refunded != other.Refunded {
		text += fmt.Sprintf(", refunded %d", o.Refunded)
	}
	if o.Dispute != other.Dispute {
		text += ", dispute " + o.Dispute.String()
	}
	if !slices.Equal(o.Held, other.Held) {
		held := make([]string, 0, len(o.Held))
		for _, h := range o.Held {
			held = append(held, h.EventID+" "+h.Reason.String())
		}
		if len(held) == 0 {
			held = []string{"nothing"}
		}
		text += ", holds " + strings.Join(held[:min(len(held), 3)], ", ")
	}
	return text
}
