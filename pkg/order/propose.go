package order

import "math"

// payment is one that counts for the order, and what the facts taken over so far
// say was given back of it.
type payment struct {
	source, id string
	amount     int64
	money
}

// money is what was given back of a payment.
type money struct {
	singles int64 // sum of single refunds that did not bounce
	total   int64 // greatest cumulative total
	bounced int64 // sum of what bounced
}

// refunded may be told twice, by single refunds and by totals; the greater one
// knows more.
func (m *money) refunded() int64 { return max(m.singles, m.total-m.bounced) }

// plus adds amounts that are not negative; it stays at the most an int64 holds.
func plus(a, b int64) int64 { return a + min(b, math.MaxInt64-a) }

var (
	none     = Judgement{Verdict: Applied}
	noChange = Judgement{Verdict: NoChange}
)

// proposal is the order after an entry that counts.
type proposal struct {
	state State
	// at is the place of the payment it speaks of, -1 if of none; one place more than
	// there are is a new payment. money is that payment's after it.
	at     int
	money  money
	undone bool  // that payment counts no more
	amount int64 // what the entry states; stated: what a decision states for it
	stated bool
	// override: the table does not lead there; a decision does.
	override bool
}

// propose decides what an entry means now. counts: it is applied, or changes
// nothing in the state but is worth remembering; p is then the order after it.
// It changes nothing but p. force makes an entry count that would be held, if
// that can mean anything: money is never negative nor of another currency than
// the order's, and what follows a payment needs one.
func (f *folding) propose(i int32, p *proposal, force bool) (j Judgement, counts bool) {
	e, s, next := &f.set[i], &f.State, &p.state
	if int(e.Kind) >= kinds {
		return noChange, false
	}
	at, known := f.paymentOf(i)
	if j := f.refusal(e.Kind, known); j != none && (!force || j.Verdict == NoChange) {
		return j, false
	} else if j != none && at < 0 && followsPayment.has(e.Kind) {
		return j, false
	}
	amount, currency, stated := e.Amount, e.Currency, false
	if d := f.acceptance(i); d != nil && d.Currency != "" {
		amount, currency, stated = d.Amount, d.Currency, true
	}
	*next = *s
	p.at, p.undone, p.override, p.amount, p.stated = -1, false, false, amount, stated
	switch e.Kind {
	case KindNone, KindPending, KindAccept, KindDismiss:
		return noChange, false
	case KindRegistered:
		if e.Hash == f.reg.Hash {
			return Judgement{Verdict: Applied}, false // it was the first step
		}
		return noChange, false
	case KindFailed:
		if known && at >= 0 { // forced: the payment that counted is undone
			p.at, p.undone = at, true
		}
		next.Status = Failed
	case KindCancelled:
		next.Status = Cancelled // what was paid stays paid until it is refunded
	case KindPaid:
		switch {
		case currency != s.Currency:
			return Judgement{Held, CurrencyMismatch}, false
		case amount < 0 || amount != s.Amount && !force:
			return Judgement{Held, AmountMismatch}, false
		case f.calledOff && s.Status == Cancelled && !force:
			return Judgement{Held, IllegalTransition}, false
		}
		next.Status = Paid
		p.at, p.money = f.paid, money{}
	case KindRefund, KindRefundTotal, KindRefundFailed:
		p.at, p.money = at, f.payments[at].money
		if j, ok := f.giveBack(p, e.Kind, currency, f.object[i], force); !ok {
			return j, false
		}
	case KindDisputeOpened, KindDisputeWon, KindDisputeLost:
		if j, ok := f.dispute(next, e.Kind, f.known[f.object[i]], force); !ok {
			return j, false
		}
	}
	if p.at >= 0 {
		f.sum(p, e)
	}
	switch {
	case *next == *s:
		return noChange, true
	case Allowed(*s, e.Kind, *next):
	case !force:
		return Judgement{Held, IllegalTransition}, false
	default:
		p.override = true
	}
	return Judgement{Verdict: Applied}, true
}

// paymentOf is the place of the payment that an entry speaks of, and whether that
// is known. An entry of another payment speaks of the first one if it is forced,
// and always if its refund or dispute counts already. -1: no payment counts.
func (f *folding) paymentOf(i int32) (at int, known bool) {
	e := &f.set[i]
	for at := range f.paid {
		if p := &f.payments[at]; p.id == e.Payment && p.source == e.Source {
			return at, true
		}
	}
	if f.paid == 0 {
		return -1, false
	}
	// A cancellation that names no payment means the order; where the payment has no
	// name, any cancellation may mean it.
	if e.Kind == KindCancelled && (e.Payment == "" || f.payments[0].id == "") {
		return 0, true
	}
	return 0, followsPayment.has(e.Kind) && f.known[f.object[i]]&followsPayment != 0
}

// refusal looks into the table of refusals. An order that was cancelled by a
// decision although it is paid answers everything else like a paid one.
func (f *folding) refusal(k Kind, samePayment bool) Judgement {
	status, other := f.State.Status, 1
	if samePayment {
		other = 0
	}
	if status == Cancelled && f.paid > 0 && k != KindCancelled {
		status = Paid
	}
	return refused[status][k][other]
}

// sum makes the state say what its payments sum to, and the status what the money
// says.
func (f *folding) sum(p *proposal, e *Entry) {
	s, counted := &p.state, 0
	s.Paid, s.Refunded = 0, 0
	for at := range max(f.paid, p.at+1) {
		var amount, back int64
		switch {
		case at != p.at:
			amount, back = f.payments[at].amount, f.payments[at].refunded()
		case p.undone:
			continue
		case at == f.paid:
			amount = p.amount
		default:
			amount, back = f.payments[at].amount, p.money.refunded()
		}
		if counted == 0 && at < f.paid {
			s.PaymentSource, s.Payment = f.payments[at].source, f.payments[at].id
		} else if counted == 0 {
			s.PaymentSource, s.Payment = e.Source, e.Payment
		}
		counted++
		s.Paid, s.Refunded = plus(s.Paid, amount), plus(s.Refunded, back)
	}
	switch {
	case counted == 0:
		s.PaymentSource, s.Payment, s.Dispute = "", "", NoDispute
	case p.undone && f.State.Status == Cancelled:
		s.Status = Cancelled
	case s.Status != Cancelled:
		s.Status = refundStatus(s)
	}
}

func refundStatus(s *State) Status {
	switch {
	case s.Refunded == 0:
		return Paid
	case s.Refunded >= s.Paid:
		return Refunded
	default:
		return PartiallyRefunded
	}
}

// giveBack adds a refund, a total or a bounce to the payment; otherwise it says
// why not. Unforced, singles and total-bounced stay within what was paid; forced,
// sums stop at the most an int64 holds, and at nothing.
func (f *folding) giveBack(p *proposal, k Kind, currency string, object int32, force bool) (Judgement, bool) {
	known, m, amount, paid := f.known[object], &p.money, p.amount, f.payments[p.at].amount
	switch {
	case k != KindRefundTotal && known.has(k), k == KindRefund && known.has(KindRefundFailed):
		return noChange, false
	case currency != f.State.Currency && (currency != "" || k != KindRefundFailed):
		return Judgement{Held, CurrencyMismatch}, false
	}
	switch k {
	case KindRefund:
		if amount < 0 || amount > paid-m.singles && !force {
			return Judgement{Held, OverRefund}, false
		}
		m.singles = plus(m.singles, amount)
	case KindRefundTotal:
		switch {
		case amount < 0 || amount-m.bounced > paid && !force:
			return Judgement{Held, OverRefund}, false
		case amount <= m.total:
			return noChange, false
		}
		m.total = amount
	case KindRefundFailed:
		whole := known.has(KindRefund) && !p.stated // then the refund itself says how much
		if whole {
			amount = f.refunds[object]
		}
		covered := known.has(KindRefund) || amount <= m.total-m.bounced
		switch {
		case !whole && (currency == "" || amount <= 0), !covered && !force:
			return Judgement{Held, AwaitingPredecessor}, false
		case known.has(KindRefund) || force:
			m.singles -= min(amount, m.singles)
		}
		m.bounced = plus(m.bounced, amount)
	}
	return Judgement{}, true
}

// dispute sets the flag; otherwise it says why not. The flag stays open until the
// last open dispute is decided.
func (f *folding) dispute(s *State, k Kind, known kindSet, force bool) (Judgement, bool) {
	open := f.openDisputes
	if known.openDispute() {
		open--
	}
	switch {
	case known.has(k), k == KindDisputeOpened && known.decidedDispute():
		return noChange, false
	case k == KindDisputeOpened:
		s.Dispute = DisputeOpen
	case !known.has(KindDisputeOpened) && !force:
		return Judgement{Held, AwaitingPredecessor}, false
	case known.decidedDispute() && !force:
		return Judgement{Held, IllegalTransition}, false
	case open > 0: // another one
	case k == KindDisputeWon:
		s.Dispute = DisputeWon
	default:
		s.Dispute = DisputeLost
	}
	return Judgement{}, true
}

// take takes over an entry that counts, with what propose made of it.
func (f *folding) take(i int32, p *proposal) {
	e, object := &f.set[i], f.object[i]
	switch {
	case p.at < 0:
	case p.undone:
		copy(f.payments[p.at:f.paid], f.payments[p.at+1:f.paid])
		f.paid--
		if f.paid == 0 {
			f.openDisputes = 0
		}
	default:
		if p.at == len(f.payments) { // only a decision lets a second one count
			f.payments = append(make([]payment, 0, 4*f.paid), f.payments...)[:4*f.paid]
		}
		if p.at == f.paid {
			f.payments[p.at] = payment{source: e.Source, id: e.Payment, amount: p.amount}
			f.paid++
		}
		f.payments[p.at].money = p.money
	}
	known := f.known[object]
	f.known[object] |= 1 << e.Kind
	switch e.Kind {
	case KindCancelled:
		f.calledOff = f.calledOff || e.Payment == ""
	case KindRefund:
		f.refunds[object] = p.amount
	case KindDisputeOpened:
		f.openDisputes++
	case KindDisputeWon, KindDisputeLost:
		if known.openDispute() && f.openDisputes > 0 {
			f.openDisputes--
		}
	}
	if p.state != f.State {
		f.Steps = append(f.Steps, Step{From: f.State, To: p.state, Cause: e.Hash, Time: e.Time, Override: p.override})
		f.State = p.state
	}
}
