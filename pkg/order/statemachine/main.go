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
	p.decisions()
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
	p.line("What is not in this table never happens, except in a message marked as a correction: a late fact or a person's")
	p.line("decision then made untrue what was published, and one message leads straight to the status that holds; or a")
	p.line("decision overrode the table.")
	p.line("")
	p.line("| from | fact | to |")
	p.line("|---|---|---|")
	for _, t := range order.Transitions() {
		p.line("| %s | %s | %s |", t.From, t.Kind, t.To)
	}
	p.line("")
	p.line("Which of several rows holds is a matter of money: nothing given back is `paid`, all of it is `refunded`,")
	p.line("anything between is `partially_refunded`. What was given back is the greater of two sums: the single refunds that")
	p.line("did not bounce, and the greatest cumulative total less what bounced. `cancelled` to `cancelled` happens only to an")
	p.line("order that a decision cancelled after it was paid.")
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

func (p *page) decisions() {
	p.line("## Decisions")
	p.line("")
	p.line("A person's decision about an entry of the order's set (`accept`, `dismiss`) is an entry of the set itself. It holds")
	p.line("wherever it lies in time and whenever it came. Of several about one entry the latest rules (time, then hash).")
	p.line("What follows is said of the entry that it is about.")
	p.line("")
	p.line("| decision | entry | what it means |")
	p.line("|---|---|---|")
	for _, d := range decided {
		p.line("| %s | %s | %s |", d.decision, d.entry, d.meaning)
	}
	p.line("")
	p.line("A step that the table does not allow is published as a correction; its cause is the fact. A decision is `applied` if")
	p.line("it made a difference, `no_change` if another one rules or it made none, and held as long as it cannot be carried")
	p.line("out: `awaiting_predecessor` if its entry is not there, else for the reason its entry is held for.")
	p.line("`pkg/order/testdata/decisions.golden` is the whole matrix.")
	p.line("")
}

var decided = []struct{ decision, entry, meaning string }{
	{"dismiss", "any fact", "It counts for nothing, as if it were not there: `no_change`, `dismissed`."},
	{"accept", "what fits, is known or is stale", "Nothing: it counts as it would anyway, an echo still not twice."},
	{"accept, with an amount", "any that states money", "That amount and currency stand in place of its own, whether it fits or not."},
	{"accept", "paid, another amount", "Paid is what it says, or what the decision says."},
	{"accept", "paid, another currency", "Counts only with an amount in the order's currency; else it stays held. The same for refunds."},
	{"accept", "paid, a second payment", "Its money adds to what was paid; refunds, totals and disputes of either payment count."},
	{"accept", "paid, of a cancelled order", "The order is paid."},
	{"accept", "cancelled, after failed", "The order is cancelled."},
	{"accept", "cancelled, after paid", "The order is cancelled. That says nothing about money: it stays paid until refunds, which count on, give it back."},
	{"accept", "failed, of the payment that paid", "That payment is undone, with what was given back of it. Without another one the order is failed, and another may pay."},
	{"accept", "failed, of a cancelled order", "The order is failed."},
	{"accept", "refund, too much", "It counts: given back may exceed paid, the status is `refunded`. No sum exceeds an int64."},
	{"accept", "refund or dispute of another payment", "It counts against the order's first payment, and so does what follows about the same object."},
	{"accept", "bounce of an unknown refund", "What was given back is less by that much, never less than nothing."},
	{"accept", "decision about a dispute", "The flag says so, unless another dispute is open."},
	{"accept", "refund or dispute of an unpaid order", "It stays held: what follows a payment needs one."},
	{"accept", "a negative amount", "It stays held, unless the decision states another."},
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
