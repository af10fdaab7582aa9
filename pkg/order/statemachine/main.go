// Command statemachine prints docs/state-machine.md from the tables of package
// order:
//
//	go run ./pkg/order/statemachine > docs/state-machine.md
package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"sluice/pkg/order"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(w io.Writer) error {
	_, err := io.WriteString(w, document())
	return err
}

// A page is the document under way.
type page struct{ strings.Builder }

func (p *page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

func document() string {
	var p page
	p.line("# The state machine of an order")
	p.line("")
	p.line("Printed from the tables in `pkg/order/transitions.go`; do not edit.")
	p.line("`go run ./pkg/order/statemachine > docs/state-machine.md` prints it anew, and a test fails while it is stale.")
	p.line("")
	p.line("An order's status is the fold of the facts known about it, in one order that does not depend on arrival:")
	p.line("second of the provider's time (undated last), then kind (%s), then the event's hash.", words(order.Kinds()))
	p.line("A fact that cannot be applied is held with a reason and tried again after each one that can.")
	p.line("")
	p.diagram()
	p.statuses()
	p.disputes()
	p.refusals()
	p.reasons()
	return p.String()
}

func (p *page) diagram() {
	p.line("```mermaid")
	p.line("stateDiagram-v2")
	type edge struct{ from, to order.Status }
	var edges []edge
	kinds := map[edge][]string{}
	for _, t := range order.Transitions() {
		e := edge{t.From, t.To}
		if kinds[e] == nil {
			edges = append(edges, e)
		}
		kinds[e] = append(kinds[e], t.Kind.String())
	}
	for _, e := range edges {
		from := e.from.String()
		if e.from == order.StatusNone {
			from = "[*]"
		}
		p.line("    %s --> %s: %s", from, e.to, strings.Join(kinds[e], ", "))
	}
	p.line("```")
	p.line("")
}

func (p *page) statuses() {
	p.line("## Status")
	p.line("")
	p.line("What is not in this table never happens, except in a message marked as a correction: a late fact then made")
	p.line("untrue what was published, and one message leads straight to the status that holds.")
	p.line("")
	p.line("| from | fact | to |")
	p.line("|---|---|---|")
	for _, t := range order.Transitions() {
		p.line("| %s | %s | %s |", t.From, t.Kind, t.To)
	}
	p.line("")
	p.line("Which of several rows holds is a matter of money: nothing given back is `paid`, all of it is `refunded`,")
	p.line("anything between is `partially_refunded`. What was given back is the greater of two sums: the single refunds that")
	p.line("did not bounce, and the greatest cumulative total less what bounced.")
	p.line("")
}

func (p *page) disputes() {
	p.line("## Dispute")
	p.line("")
	p.line("A flag beside the status. It stays open until the last open dispute is decided.")
	p.line("")
	p.line("| from | fact | to |")
	p.line("|---|---|---|")
	for _, t := range order.DisputeTransitions() {
		p.line("| %s | %s | %s |", t.From, t.Kind, t.To)
	}
	p.line("")
}

func (p *page) refusals() {
	p.line("## Verdicts given by the status alone")
	p.line("")
	p.line("Same payment: the one that paid the order.")
	p.line("")
	p.line("| order is | fact | of | verdict | reason |")
	p.line("|---|---|---|---|---|")
	for _, r := range order.Refusals() {
		reason := r.Reason.String()
		if r.Reason == order.NoReason {
			reason = ""
		}
		p.line("| %s | %s | %s | %s | %s |", words(r.From), words(r.Kinds), payments[r.Payment], r.Verdict, reason)
	}
	p.line("")
}

var payments = map[order.Payments]string{
	order.AnyPayment:   "any payment",
	order.SamePayment:  "same payment",
	order.OtherPayment: "another payment",
}

func words[T fmt.Stringer](list []T) string {
	var w []string
	for _, x := range list {
		w = append(w, x.String())
	}
	return strings.Join(w, ", ")
}

func (p *page) reasons() {
	p.line("## Reasons")
	p.line("")
	p.line("| reason | verdict | meaning |")
	p.line("|---|---|---|")
	for r, m := range meanings {
		if m.text != "" {
			p.line("| %s | %s | %s |", order.Reason(r), m.verdict, m.text)
		}
	}
	p.line("")
	p.line("Verdicts: %s. `no_change`: the fact is known, stale, or says nothing new.", words(slices.Collect(verdicts)))
}

func verdicts(yield func(order.Verdict) bool) {
	for v := range order.Duplicate + 1 {
		if !yield(v) {
			return
		}
	}
}

var meanings = []struct {
	verdict order.Verdict
	text    string
}{
	order.AwaitingOrder:       {order.Held, "The shop has not registered the order."},
	order.AwaitingPayment:     {order.Held, "It speaks of a payment that did not pay this order."},
	order.AwaitingPredecessor: {order.Held, "It follows a fact that is not known: a refund or dispute before its payment, a bounce before its refund, a decision before its dispute."},
	order.AwaitingProvider:    {order.Held, "The provider's API has to be asked first."},
	order.IllegalTransition:   {order.Held, "The table does not lead from the order's status to what it says."},
	order.SecondPayment:       {order.Held, "Another payment for an order that is paid: money may have to go back."},
	order.AmountMismatch:      {order.Held, "What was paid is not what the shop registered."},
	order.CurrencyMismatch:    {order.Held, "The currency is not the order's."},
	order.OverRefund:          {order.Held, "More would be given back than was paid."},
	order.OutsideWindow:       {order.Held, "It is older than the dedupe window, and nothing is known of its order or payment."},
	order.OtherMode:           {order.NoChange, "A test event in a live deployment, or the reverse."},
	order.Dismissed:           {order.NoChange, "A person decided that it counts for nothing."},
}
