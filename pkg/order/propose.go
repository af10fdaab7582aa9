package order

import "math"

// money is what the facts taken over so far say was given back.
type money struct {
	singles int64 // sum of single refunds that did not bounce
	total   int64 // greatest cumulative total
	bounced int64 // sum of what bounced
}

// refunded may be told twice, by single refunds and by totals; the greater one
// knows more.
func (m money) refunded() int64 { return max(m.singles, m.total-m.bounced) }

var (
	none     = Judgement{Verdict: Applied}
	noChange = Judgement{Verdict: NoChange}
)

// proposal is the order after an entry that counts.
type proposal struct {
	state State
	money money
}

// propose decides what an entry means now. counts: it is applied, or changes
// nothing in the state but is worth remembering; p is then the order after it.
// It changes nothing but p.
func (f *folding) propose(i int32, p *proposal) (j Judgement, counts bool) {
	e, s, next := &f.set[i], &f.State, &p.state
	other := 0
	if e.Payment != s.Payment || e.Source != s.PaymentSource {
		other = 1
	}
	if int(e.Kind) >= kinds {
		return noChange, false
	}
	if j := refused[s.Status][e.Kind][other]; j != none {
		return j, false
	}
	*next, p.money = *s, f.money
	switch e.Kind {
	case KindNone, KindPending, KindAccept, KindDismiss:
		return noChange, false
	case KindRegistered:
		if e.Hash == f.reg.Hash {
			return Judgement{Verdict: Applied}, false // it was the first step
		}
		return noChange, false
	case KindFailed:
		next.Status = Failed
	case KindCancelled:
		next.Status = Cancelled
	case KindPaid:
		if e.Currency != s.Currency {
			return Judgement{Held, CurrencyMismatch}, false
		}
		if e.Amount != s.Amount || e.Amount < 0 {
			return Judgement{Held, AmountMismatch}, false
		}
		next.Status, next.Paid = Paid, e.Amount
		next.PaymentSource, next.Payment = e.Source, e.Payment
	case KindRefund, KindRefundTotal, KindRefundFailed:
		if j, ok := f.giveBack(&p.money, e, f.object[i]); !ok {
			return j, false
		}
		next.Refunded = p.money.refunded()
		next.Status = refundStatus(next)
	case KindDisputeOpened, KindDisputeWon, KindDisputeLost:
		if j, ok := f.dispute(next, e.Kind, f.known[f.object[i]]); !ok {
			return j, false
		}
	}
	switch {
	case *next == *s:
		return noChange, true
	case !Allowed(*s, e.Kind, *next):
		return Judgement{Held, IllegalTransition}, false
	}
	return Judgement{Verdict: Applied}, true
}

// giveBack adds a refund, a total or a bounce to the money; otherwise it says why
// not. No sum can overflow: singles and total-bounced stay within what was paid.
func (f *folding) giveBack(m *money, e *Entry, object int32) (Judgement, bool) {
	known, paid := f.known[object], f.State.Paid
	bounceOfKnown := e.Kind == KindRefundFailed && known.has(KindRefund)
	switch {
	case e.Kind != KindRefundTotal && known.has(e.Kind), e.Kind == KindRefund && known.has(KindRefundFailed):
		return noChange, false
	case e.Currency != f.State.Currency && (e.Currency != "" || e.Kind != KindRefundFailed):
		return Judgement{Held, CurrencyMismatch}, false
	}
	switch e.Kind {
	case KindRefund:
		if e.Amount < 0 || e.Amount > paid-m.singles {
			return Judgement{Held, OverRefund}, false
		}
		m.singles += e.Amount
	case KindRefundTotal:
		switch {
		case e.Amount < 0 || e.Amount-m.bounced > paid:
			return Judgement{Held, OverRefund}, false
		case e.Amount <= m.total:
			return noChange, false
		}
		m.total = e.Amount
	case KindRefundFailed:
		back := e.Amount
		if bounceOfKnown {
			back = f.refunds[object]
			m.singles -= back
		} else if e.Currency == "" || back <= 0 || back > m.total-m.bounced {
			return Judgement{Held, AwaitingPredecessor}, false
		}
		m.bounced += min(back, math.MaxInt64-m.bounced)
	}
	return Judgement{}, true
}

func refundStatus(s *State) Status {
	switch s.Refunded {
	case 0:
		return Paid
	case s.Paid:
		return Refunded
	default:
		return PartiallyRefunded
	}
}

// dispute sets the flag; otherwise it says why not. The flag stays open until the
// last open dispute is decided.
func (f *folding) dispute(s *State, k Kind, known kindSet) (Judgement, bool) {
	decided := known.has(KindDisputeWon) || known.has(KindDisputeLost)
	switch {
	case known.has(k):
		return noChange, false
	case k == KindDisputeOpened:
		s.Dispute = DisputeOpen
	case !known.has(KindDisputeOpened):
		return Judgement{Held, AwaitingPredecessor}, false
	case decided:
		return Judgement{Held, IllegalTransition}, false
	case f.openDisputes > 1: // another one is still open
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
	f.money = p.money
	f.known[object] |= 1 << e.Kind
	switch e.Kind {
	case KindRefund:
		f.refunds[object] = e.Amount
	case KindDisputeOpened:
		f.openDisputes++
	case KindDisputeWon, KindDisputeLost:
		f.openDisputes--
	}
	if p.state != f.State {
		f.step(p.state, e.Hash, e.Time)
	}
}
