package order

// world is a small world of facts about an order of 100 EUR. Two facts interact
// only through what the fold compares, so a symbol stands for a class of facts:
//
//   - kind: each one that can move an order, and one (pending) that cannot;
//   - time: before, within the second of, and after the payment, equal, missing.
//     Only the order of seconds counts, so a handful of them gives every order
//     that as many facts can have;
//   - payment: the one that pays (A), another (B); the same told twice;
//   - object: one refund told twice, several, of either payment; two disputes;
//   - money: right, wrong amount, wrong currency; refunds that fit alone and not
//     together (40, 60, 70, 100); totals that do and do not cover the singles.
//
// Two or three of them meet each rule of the fold (coverage of the package by this
// world alone is held by TestTheWorldMeetsEveryVerdict); six leave room for every
// chain a rule can start: held, mended by a second, mended by a third.
func world() []Entry {
	facts := []Entry{
		{Kind: KindPending, Time: 1000, Payment: "A"},
		{Kind: KindFailed, Time: 1000, Payment: "A"},
		{Kind: KindFailed, Time: 5000, Payment: "A"},
		{Kind: KindFailed, Payment: "B"},
		{Kind: KindPaid, Time: 2000, Payment: "A", Amount: 100},
		{Kind: KindPaid, Time: 2400, Payment: "A", Object: "order.paid", Amount: 100},
		{Kind: KindPaid, Time: 4000, Payment: "B", Amount: 100},
		{Kind: KindPaid, Payment: "A", Amount: 100},
		{Kind: KindPaid, Time: 1000, Payment: "A", Amount: 99},
		{Kind: KindPaid, Time: 1000, Payment: "A", Amount: 100, Currency: "USD"},
		{Kind: KindRefund, Time: 2000, Payment: "A", Object: "r1", Amount: 40},
		{Kind: KindRefund, Time: 3000, Payment: "A", Object: "r2", Amount: 60},
		{Kind: KindRefund, Time: 1000, Payment: "B", Object: "r3", Amount: 100},
		{Kind: KindRefund, Payment: "A", Object: "r4", Amount: 70},
		{Kind: KindRefund, Time: 3000, Payment: "A", Object: "r1", Amount: 40},
		{Kind: KindRefundTotal, Time: 3000, Payment: "A", Amount: 40},
		{Kind: KindRefundTotal, Time: 1000, Payment: "A", Amount: 100},
		{Kind: KindRefundFailed, Time: 4000, Payment: "A", Object: "r1", Amount: 40},
		{Kind: KindRefundFailed, Time: 2000, Payment: "A", Object: "r2", Amount: 60},
		{Kind: KindDisputeOpened, Time: 3000, Payment: "A", Object: "d1"},
		{Kind: KindDisputeOpened, Payment: "A", Object: "d2"},
		{Kind: KindDisputeWon, Time: 4000, Payment: "A", Object: "d1"},
		{Kind: KindDisputeLost, Time: 1000, Payment: "A", Object: "d1"},
		{Kind: KindCancelled, Time: 2000},
		{Kind: KindCancelled, Time: 1000, Payment: "A"},
		{Kind: KindCancelled},
	}
	for i := range facts {
		facts[i].Source = "shop"
		facts[i].Hash = hash(100 + i*7919%1000) // an order of hashes unlike that of the table
		if facts[i].Currency == "" {
			facts[i].Currency = "EUR"
		}
	}
	return facts
}

// decidedWorld has fewer facts, one for each reason to be held, and decisions: each
// kind about each reason, with and without an amount, two about one target, in
// both orders of time, and a dismissal of what would be applied.
func decidedWorld() []Entry {
	w := world()
	const failed, paid, second, wrong, usd, r1, r2, other, bounce, won, cancelled = 2, 4, 6, 8, 9, 10, 11, 12, 18, 21, 23
	var set []Entry
	for _, i := range []int{failed, paid, second, wrong, usd, r1, r2, other, bounce, won, cancelled} {
		set = append(set, w[i])
	}
	decide := func(k Kind, target int, at int64, amount int64, currency string) {
		set = append(set, Entry{Hash: hash(3000 + len(set)*7%32), Source: "review", Kind: k, Time: at,
			Target: w[target].Hash, Amount: amount, Currency: currency})
	}
	decide(KindAccept, failed, 9000, 0, "")
	decide(KindAccept, second, 9000, 0, "")
	decide(KindAccept, wrong, 9000, 0, "")
	decide(KindAccept, usd, 9000, 90, "EUR")
	decide(KindAccept, r2, 9000, 80, "EUR")
	decide(KindAccept, other, 9000, 0, "")
	decide(KindAccept, bounce, 9000, 0, "")
	decide(KindAccept, won, 9000, 0, "")
	decide(KindAccept, cancelled, 9000, 0, "")
	decide(KindDismiss, paid, 9000, 0, "")
	decide(KindDismiss, second, 9001, 0, "")
	decide(KindDismiss, cancelled, 8999, 0, "")
	return set
}
