package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/services/sluice/terminal"
)

// Print shows an answer to people. Times are in zone.
func (a *Answer) Print(out *terminal.Printer, zone *time.Location) {
	p := printer{out, zone, len(a.NotLookedAt) == 0}
	if a.Event != nil {
		p.event(a.Event)
	}
	if pay := a.Payment; pay != nil {
		p.Line("%s", p.Bold("payment "+pay.ID+" of "+pay.Source))
		to := "no order yet: no event has named this payment and an order together"
		if pay.Order != "" {
			to = "order " + pay.Order
		}
		p.Table([][]string{{"leads to", to}})
	}
	if a.Order != nil {
		if a.Event != nil || a.Payment != nil {
			p.Line("")
		}
		p.order(a.Order)
		shown := map[int64]bool{}
		if a.Event != nil {
			for _, r := range a.Event.Reviews {
				shown[r.ID] = true
			}
		}
		p.reviews(slices.DeleteFunc(slices.Clone(a.Order.Reviews), func(r Review) bool { return shown[r.ID] }))
	}
	if a.Event != nil && a.Event.Body != nil {
		p.Title("Body")
		p.Line("%s", *a.Event.Body)
	}
	for _, what := range a.NotLookedAt {
		p.Line("\n%s", p.Yellow("not looked at: "+what))
	}
}

type printer struct {
	*terminal.Printer
	zone *time.Location
	all  bool // everything was looked at
}

func (p printer) time(t *time.Time) string {
	if t == nil {
		return "undated"
	}
	return t.In(p.zone).Format("2006-01-02 15:04:05 MST")
}

func (p printer) event(e *Event) {
	name := "event " + e.ID
	if e.Source != "" {
		name += " of " + e.Source
	}
	if e.Type != "" {
		name += "  " + p.Dim(e.Type)
	}
	p.Line("%s", p.Bold(name))
	var rows [][]string
	if r := e.Receipt; r != nil {
		if r.Provider != "" {
			rows = append(rows, []string{"came in", fmt.Sprintf("%s at endpoint %s, from %s, %s", p.time(r.ReceivedAt), r.Endpoint, r.Provider, e.Mode)})
		}
		at := fmt.Sprintf("partition %d, offset %d", r.Partition, r.Offset)
		if r.BytesFrom != "" {
			at += fmt.Sprintf("; its %d bytes are in %s", r.BodyBytes, strings.ReplaceAll(r.BytesFrom, "_", " "))
		}
		rows = append(rows, []string{"lies at", at})
	}
	rows = append(rows, []string{"signature", p.signature(e.Signature)}, []string{"dedupe", p.dedupe(e.Dedupe)})
	if r := e.Reading; r != nil {
		rows = append(rows, []string{"states", p.reading(r) + p.Dim("  "+p.time(e.Occurred))})
	}
	switch {
	case e.Dead != nil:
		rows = append(rows, []string{"verdict", p.Yellow("dead letter: "+e.Dead.Reason) + ", " + e.Dead.Detail})
		if e.Dead.SettledAt != nil {
			settled := "could be read later"
			if e.Dead.SettledBy != "" {
				settled = strings.ReplaceAll(e.Dead.SettledAs, "_", " ") + " by " + e.Dead.SettledBy
			}
			rows = append(rows, []string{"", settled + ", at " + p.time(e.Dead.SettledAt)})
		}
	case e.Verdict != nil:
		rows = append(rows, p.verdict(*e.Verdict)...)
	}
	if e.Before != nil && e.After != nil {
		rows = append(rows, []string{"without it", "the order would be " + p.state(*e.Before)}, []string{"with it", "the order is " + p.state(*e.After)})
	}
	if len(e.Messages) > 0 {
		rows = append(rows, []string{"published", strings.Join(e.Messages, ", ")})
	}
	p.Table(rows)
	p.deliveries(e.Dedupe.Deliveries)
	p.reviews(e.Reviews)
}

func (p printer) signature(s Signature) string {
	colour, text := p.Yellow, strings.ReplaceAll(s.Verdict, "_", " ")
	switch s.Verdict {
	case sigValid:
		text = "valid, verified again over the stored bytes"
		colour = p.Green
	case sigLookedUp:
		colour = p.Green
	case sigInvalid:
		colour = p.Red
	case sigNotVerified:
		text = "cannot be verified again"
	}
	text = colour(text)
	if s.Why != "" {
		text += ": " + s.Why
	}
	switch {
	case s.Secret != "":
		text += ", with " + s.Secret
		if s.SignedAt != nil {
			text += ", signed " + p.time(s.SignedAt)
		}
	case s.AtReceipt != "":
		text += "; at receipt it matched " + s.AtReceipt
	}
	return text
}

var dedupes = map[string]string{
	"taken_over": "taken over", "in_set": "its order's set has it", "dead": "not taken over: nobody can read it",
	"hint":      "held apart: nobody has signed it",
	"in_flight": "in flight: the processor has not come to it yet", "unknown": "the database does not know it",
}

func (p printer) dedupe(d Dedupe) string {
	text := dedupes[d.Verdict]
	if d.Verdict == "unknown" {
		text = p.Red(text)
	}
	if d.SeenAt != nil {
		text += " " + p.time(d.SeenAt)
	}
	switch n := len(d.Deliveries); n {
	case 0:
	case 1:
		text += ", delivered once"
	default:
		text += fmt.Sprintf(", delivered %d times", n)
	}
	return text
}

func (p printer) deliveries(all []Delivery) {
	if len(all) == 0 {
		return
	}
	p.Title("Deliveries")
	rows := [][]string{{"appended", "partition", "offset", ""}}
	for _, d := range all {
		note := ""
		if !d.SameBody {
			note = p.Yellow("another body")
		}
		rows = append(rows, []string{p.time(&d.AppendedAt), fmt.Sprint(d.Partition), fmt.Sprint(d.Offset), note})
	}
	p.Table(rows)
}

func (p printer) reading(r *Reading) string {
	text := strings.ReplaceAll(r.Fact.String(), "_", " ")
	if r.Fact == order.KindNone {
		return "nothing about an order"
	}
	if r.Currency != "" {
		text += " " + Money(r.Amount, r.Currency)
	}
	for _, f := range [...]struct{ what, id string }{{"order", r.Order}, {"payment", r.Payment}, {"object", r.Object}} {
		if f.id != "" {
			text += ", " + f.what + " " + f.id
		}
	}
	return text
}

func (p printer) verdict(v Verdict) (rows [][]string) {
	text := p.word(v)
	if v.Why != "" {
		text += ": " + v.Why
	}
	rows = append(rows, []string{"verdict", text})
	if v.Release != "" {
		rows = append(rows, []string{"waits until", v.Release})
	}
	switch {
	case v.HeldAt == nil:
	case v.DueAt != nil:
		rows = append(rows, []string{"held since", p.time(v.HeldAt) + "; a person is asked " + p.time(v.DueAt)})
	default:
		rows = append(rows, []string{"held since", p.time(v.HeldAt) + "; a person has been asked"})
	}
	return rows
}

// word is a verdict in one word, with its reason.
func (p printer) word(v Verdict) string {
	text := strings.ReplaceAll(v.Verdict.String(), "_", " ")
	if v.Reason != order.NoReason {
		text += " (" + strings.ReplaceAll(v.Reason.String(), "_", " ") + ")"
	}
	switch v.Verdict {
	case order.Applied:
		return p.Green(text)
	case order.Held:
		return p.Yellow(text)
	}
	return p.Dim(text)
}

func (p printer) state(s State) string {
	if s.Status == order.StatusNone {
		return "unregistered" + held(s.Held)
	}
	text := s.Status.String()
	if s.Paid != 0 {
		text += ", " + Money(s.Paid, s.Currency) + " paid"
	}
	if s.Refunded != 0 {
		text += ", " + Money(s.Refunded, s.Currency) + " given back"
	}
	if s.Dispute != order.NoDispute {
		text += ", dispute " + s.Dispute.String()
	}
	return text + held(s.Held)
}

func held(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %d held", n)
}

func (p printer) order(o *Order) {
	name := "order " + o.ID
	if o.ID == "" {
		name = "an order that only a payment is known of"
	}
	p.Line("%s", p.Bold(name))
	registered := p.Yellow("not by the shop")
	if r := o.Registered; r != nil {
		registered = p.time(&r.At) + ", " + Money(r.Amount, r.Currency)
		if r.Reference != "" {
			registered += ", " + r.Reference
		}
	}
	rows := [][]string{{"registered", registered}, {"is", p.state(o.Now)}}
	if !o.Agrees {
		rows = append(rows, []string{"", p.Red("the store says something else than the fold of its events: this is a fault of Sluice")})
	}
	p.Table(rows)
	p.Title("What happened, in the order of the fold")
	rows = [][]string{{"happened", "arrived", "what", "amount", "event", "verdict"}}
	for _, e := range o.Events {
		rows = append(rows, p.entry(e))
	}
	p.Table(rows)
	p.held(o)
	p.hints(o.Hints)
	p.asking(o.Asking)
	p.path(o)
	p.messages(o)
	p.effects(o.Effects)
}

// effects are what the order caused outside.
func (p printer) effects(effects []postgres.EffectSummary) {
	if len(effects) == 0 {
		return
	}
	p.Title("What it causes outside")
	rows := [][]string{{"since", "effect", "caused by", "state", "attempts"}}
	for _, e := range effects {
		state := e.State.String()
		if e.Outdated {
			state += p.Yellow(", outdated")
		}
		if e.LastClass != "" {
			state += p.Dim(", " + strings.ReplaceAll(e.LastClass, "_", " "))
		}
		cause := strings.TrimSpace(fmt.Sprintf("%s %s %s", strings.ReplaceAll(e.Fact.Kind.String(), "_", " "), e.Fact.Payment, e.Fact.Object))
		rows = append(rows, []string{p.time(&e.CreatedAt), e.Key, cause, state, fmt.Sprint(e.Attempts)})
	}
	p.Table(rows)
}

func (p printer) entry(e Entry) []string {
	amount := ""
	if e.Currency != "" {
		amount = Money(e.Amount, e.Currency)
	}
	id := e.ID
	if e.Decides != "" {
		id = "about " + e.Decides
	}
	if e.Asked {
		id = p.Bold(id + " ◂")
	}
	happened := p.time(e.OccurredAt)
	if e.OccurredAt != nil {
		happened = e.OccurredAt.In(p.zone).Format("01-02 15:04:05")
	}
	return []string{happened, fmt.Sprintf("%d.", e.Arrival), strings.ReplaceAll(e.Fact.String(), "_", " "), amount, id, p.word(e.Verdict)}
}

func (p printer) held(o *Order) {
	var rows [][]string
	for _, e := range o.Events {
		if e.Verdict.Verdict == order.Held {
			rows = append(rows, []string{e.ID, e.Verdict.Why, "until " + e.Verdict.Release})
		}
	}
	if rows != nil {
		p.Title("What is held")
		p.Table(rows)
	}
}

func (p printer) hints(all []Hint) {
	if len(all) == 0 {
		return
	}
	p.Title("What nobody has signed, and the provider is asked about")
	rows := [][]string{{"held since", "hint", "asked about", ""}}
	for _, h := range all {
		note := "not asked yet"
		if h.Attempts > 0 {
			note = fmt.Sprintf("attempt %d: %s", h.Attempts, postgres.LookupProblem(h.Problem))
		}
		rows = append(rows, []string{p.time(&h.HeldAt), h.Source + " " + h.ID + p.Dim(" "+h.Type), h.Object, p.Yellow(note)})
	}
	p.Table(rows)
}

// asking is what the providers are being asked about, and when next.
func (p printer) asking(all []Asking) {
	if len(all) == 0 {
		return
	}
	p.Title("What its provider is being asked about")
	rows := [][]string{{"since", "asked about", "next", ""}}
	for _, a := range all {
		next, note := "now", "not asked yet"
		if a.NextAt != nil {
			next = p.time(a.NextAt)
		}
		if a.Attempts > 0 {
			note = fmt.Sprintf("attempt %d: %s", a.Attempts, postgres.LookupProblem(a.Problem))
		}
		if a.For == "order" {
			note = "it hangs; " + note
		}
		rows = append(rows, []string{p.time(&a.Since), a.Source + " " + a.Object, next, p.Yellow(note)})
	}
	p.Table(rows)
}

// path is the fold's own way, which no message need have shown.
func (p printer) path(o *Order) {
	if len(o.Steps) == 0 {
		return
	}
	p.Title("How that leads to the state")
	var rows [][]string
	for _, s := range o.Steps {
		note := ""
		if s.Override {
			note = p.Yellow("by a person's decision")
		}
		rows = append(rows, []string{p.state(s.To), p.Dim("by " + s.Cause), note})
	}
	p.Table(rows)
}

func (p printer) messages(o *Order) {
	if len(o.Messages) == 0 {
		return
	}
	p.Title("What was published")
	rows := [][]string{{"message", "changed", "status", "partition", "offset", "because of", ""}}
	for _, m := range o.Messages {
		partition, offset := "", ""
		switch {
		case m.Published != nil:
			partition, offset = fmt.Sprint(m.Published.Partition), fmt.Sprint(m.Published.Offset)
		case p.all:
			offset = p.Dim("not found")
		}
		note := ""
		if m.Correction {
			note = p.Yellow("correction of " + m.From.String())
		}
		rows = append(rows, []string{m.ID, m.ChangedAt.In(p.zone).Format("01-02 15:04:05"), m.To.String(), partition, offset, m.Cause, note})
	}
	p.Table(rows)
}

func (p printer) reviews(all []Review) {
	if len(all) == 0 {
		return
	}
	p.Title("Review")
	var rows [][]string
	for _, r := range all {
		state := p.Yellow("open")
		if r.SettledAt != nil {
			state = "settled " + p.time(r.SettledAt) + ": " + strings.ReplaceAll(r.Decision, "_", " ")
		}
		rows = append(rows, []string{fmt.Sprint(r.ID), strings.ReplaceAll(r.Kind, "_", " "), r.Detail, state})
		for _, a := range r.Acts {
			rows = append(rows, []string{"", "", fmt.Sprintf("%s by %s, %s: %s", a.Action, a.Who, p.time(&a.At), a.Reason), ""})
		}
	}
	p.Table(rows)
}
