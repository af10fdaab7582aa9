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

// proposal is what one entry would make of the order.
type proposal struct {
	Judgement
	state  State // after it, if Applied
	money  money
	counts bool // Applied, or no change of the state but worth remembering
}

func held(r Reason) proposal { return proposal{Judgement: Judgement{Held, r}} }

var noChange = proposal{Judgement: Judgement{Verdict: NoChange}}

// propose decides what an entry means now. It changes nothing.
func (f *folding) propose(i int32) proposal {
	e, s := &f.set[i], &f.State
	other := 0
	if e.Payment != s.Payment || e.Source != s.PaymentSource {
		other = 1
	}
	if int(e.Kind) >= kinds {
		return noChange
	}
	if j := refused[s.Status][e.Kind][other]; j.Verdict != Applied {
		return proposal{Judgement: j}
	}
	p := proposal{state: *s, money: f.money, counts: true}
	switch e.Kind {
	case KindNone, KindPending:
		return noChange
	case KindRegistered:
		if e.Hash == f.reg.Hash {
			return proposal{} // applied already, as the first step
		}
		return noChange
	case KindFailed:
		p.state.Status = Failed
	case KindCancelled:
		p.state.Status = Cancelled
	case KindPaid:
		if e.Currency != s.Currency {
			return held(CurrencyMismatch)
		}
		if e.Amount != s.Amount || e.Amount < 0 {
			return held(AmountMismatch)
		}
		p.state.Status, p.state.Paid = Paid, e.Amount
		p.state.PaymentSource, p.state.Payment = e.Source, e.Payment
	case KindRefund, KindRefundTotal, KindRefundFailed:
		if j, ok := f.giveBack(&p.money, e, f.object[i]); !ok {
			return proposal{Judgement: j}
		}
		p.state.Refunded = p.money.refunded()
		p.state.Status = refundStatus(p.state)
	case KindDisputeOpened, KindDisputeWon, KindDisputeLost:
		if j, ok := f.dispute(&p.state, e.Kind, f.known[f.object[i]]); !ok {
			return proposal{Judgement: j}
		}
	}
	if p.state == *s {
		p.Verdict = NoChange
	} else if !Allowed(*s, e.Kind, p.state) {
		return held(IllegalTransition)
	}
	return p
}

// giveBack adds a refund, a total or a bounce to the money; otherwise it says why
// not. No sum can overflow: singles and total-bounced stay within what was paid.
func (f *folding) giveBack(m *money, e *Entry, object int32) (Judgement, bool) {
	known, paid := f.known[object], f.State.Paid
	bounceOfKnown := e.Kind == KindRefundFailed && known.has(KindRefund)
	switch {
	case e.Kind != KindRefundTotal && known.has(e.Kind), e.Kind == KindRefund && known.has(KindRefundFailed):
		return noChange.Judgement, false
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
			return noChange.Judgement, false
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

func refundStatus(s State) Status {
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
		return noChange.Judgement, false
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

// take remembers an entry that counts.
func (f *folding) take(i int32, p proposal) {
	object := f.object[i]
	f.money = p.money
	f.known[object] |= 1 << f.set[i].Kind
	switch f.set[i].Kind {
	case KindRefund:
		f.refunds[object] = f.set[i].Amount
	case KindDisputeOpened:
		f.openDisputes++
	case KindDisputeWon, KindDisputeLost:
		f.openDisputes--
	}
}
