package postgres

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"sluice/pkg/postgres/internal/dbgen"
)

// payment names a payment as the store does.
type payment struct {
	source int16
	id     string
}

func comparePayments(a, b payment) int {
	return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.id, b.id))
}

// link is where a payment leads.
type link struct {
	orderNo int64
	linked  bool
}

// routes is where each fact belongs.
type routes struct {
	orderNos []int64         // for each fact
	moved    map[int64]int64 // stubs whose events belong to a named order now
	// crossed are the facts that name an order with a payment that leads to another.
	crossed []int
}

// route finds or makes the order of each fact: by its order reference, else by
// its payment. Both are remembered: a payment named together with an order leads
// to that order from now on, and what was held under the payment alone moves
// there. A link to a named order is final; one to a stub is locked, so that an
// event and its link can never miss each other.
func (tx Tx) route(ctx context.Context, facts []Fact, nos map[string]int16, anew *anewFacts) (routes, error) {
	orders, err := tx.ordersOf(ctx, facts, anew)
	if err != nil {
		return routes{}, err
	}
	wanted := map[payment]int64{} // 0: no fact names its order
	for i := range facts {
		if facts[i].Payment == "" || anew.placed(i) {
			continue
		}
		p := payment{nos[facts[i].Source], facts[i].Payment}
		if wanted[p] == 0 {
			wanted[p] = orders[facts[i].OrderID] // 0 for no reference
		}
	}
	links, moved, err := tx.linkPayments(ctx, wanted, anew)
	if err != nil {
		return routes{}, err
	}
	r := routes{orderNos: make([]int64, len(facts)), moved: moved}
	for i := range facts {
		switch f := &facts[i]; {
		case anew.placed(i):
			if r.orderNos[i] = anew.homes[i]; moved[r.orderNos[i]] != 0 { // 0: nowhere
				r.orderNos[i] = moved[r.orderNos[i]]
			}
		case f.OrderNo != 0:
			r.orderNos[i] = f.OrderNo
		case f.OrderID != "":
			r.orderNos[i] = orders[f.OrderID]
			if f.Payment != "" && links[payment{nos[f.Source], f.Payment}].orderNo != r.orderNos[i] {
				r.crossed = append(r.crossed, i)
			}
		default:
			r.orderNos[i] = links[payment{nos[f.Source], f.Payment}].orderNo
		}
	}
	return r, nil
}

// ordersOf returns the number of each order that the facts name, making stubs
// for the unknown.
func (tx Tx) ordersOf(ctx context.Context, facts []Fact, anew *anewFacts) (map[string]int64, error) {
	orders := map[string]int64{}
	for i := range facts {
		if id := facts[i].OrderID; id != "" && !anew.placed(i) {
			orders[id] = 0
		}
	}
	if len(orders) == 0 {
		return orders, nil
	}
	if err := tx.findOrders(ctx, slices.Collect(maps.Keys(orders)), orders); err != nil {
		return nil, err
	}
	missing := missingIn(orders)
	if len(missing) == 0 {
		return orders, nil
	}
	slices.Sort(missing)
	added, err := tx.q.AddOrders(ctx, missing)
	if err != nil {
		return nil, fmt.Errorf("add orders: %w", err)
	}
	for _, r := range added {
		orders[r.OrderID.String] = r.OrderNo
	}
	if missing = missingIn(orders); len(missing) > 0 { // another transaction was first, and has committed
		if err := tx.findOrders(ctx, missing, orders); err != nil {
			return nil, err
		}
	}
	return orders, nil
}

func (tx Tx) findOrders(ctx context.Context, ids []string, orders map[string]int64) error {
	rows, err := tx.q.FindOrders(ctx, ids)
	if err != nil {
		return fmt.Errorf("find orders: %w", err)
	}
	for _, r := range rows {
		orders[r.OrderID.String] = r.OrderNo
	}
	return nil
}

func missingIn(orders map[string]int64) (ids []string) {
	for id, no := range orders {
		if no == 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

// linkPayments returns where each payment leads, and which stubs moved. wanted
// is the order each payment should lead to, 0 if that is not known.
func (tx Tx) linkPayments(ctx context.Context, wanted map[payment]int64, anew *anewFacts) (map[payment]link, map[int64]int64, error) {
	links := make(map[payment]link, len(wanted))
	if anew != nil {
		for h := range anew.unlearnt {
			wanted[h.payment] += 0
		}
	}
	if len(wanted) == 0 {
		return links, nil, nil
	}
	all := slices.SortedFunc(maps.Keys(wanted), comparePayments)
	if err := tx.findPayments(ctx, all, links); err != nil {
		return nil, nil, err
	}
	if err := tx.addPayments(ctx, all, wanted, links); err != nil {
		return nil, nil, err
	}
	// What another transaction added, and what leads to a stub, is read again under a lock.
	var open []payment
	for _, p := range all {
		if l, ok := links[p]; !ok || !l.linked || anew.forgets(p, l) {
			open = append(open, p)
		}
	}
	if len(open) == 0 {
		return links, nil, nil
	}
	sources, ids := columns(open)
	rows, err := tx.q.LockPayments(ctx, sources, ids)
	if err != nil {
		return nil, nil, fmt.Errorf("lock payments: %w", err)
	}
	var (
		moved  = map[int64]int64{}
		toLink []payment
		toNos  []int64

		forgotten []payment
	)
	for _, r := range rows {
		p := payment{r.SourceNo, r.PaymentID}
		links[p] = link{r.OrderNo, r.Linked}
		if anew.forgets(p, links[p]) {
			forgotten = append(forgotten, p)
			continue
		}
		if to := wanted[p]; to != 0 && !r.Linked {
			moved[r.OrderNo] = to
			links[p] = link{to, true}
			toLink, toNos = append(toLink, p), append(toNos, to)
		}
	}
	if len(toLink) > 0 {
		sources, ids := columns(toLink)
		if err := tx.q.LinkPayments(ctx, sources, ids, toNos); err != nil {
			return nil, nil, fmt.Errorf("link payments: %w", err)
		}
	}
	return links, moved, tx.forget(ctx, forgotten, wanted, links, anew)
}

func (tx Tx) findPayments(ctx context.Context, ps []payment, links map[payment]link) error {
	sources, ids := columns(ps)
	rows, err := tx.q.FindPayments(ctx, sources, ids)
	if err != nil {
		return fmt.Errorf("find payments: %w", err)
	}
	for _, r := range rows {
		links[payment{r.SourceNo, r.PaymentID}] = link{r.OrderNo, r.Linked}
	}
	return nil
}

// addPayments enters the payments that links lacks, each with the order it is
// wanted for or a stub of its own. What another transaction entered meanwhile
// stays out of links.
func (tx Tx) addPayments(ctx context.Context, sorted []payment, wanted map[payment]int64, links map[payment]link) error {
	var (
		fresh  []payment
		arg    dbgen.AddPaymentsParams
		nStubs int32
	)
	for _, p := range sorted {
		if _, ok := links[p]; !ok {
			fresh = append(fresh, p)
			if wanted[p] == 0 {
				nStubs++
			}
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	var stubs []int64
	if nStubs > 0 {
		var err error
		if stubs, err = tx.q.AddStubs(ctx, nStubs); err != nil {
			return fmt.Errorf("add stubs: %w", err)
		}
	}
	made := make(map[payment]link, len(fresh))
	for _, p := range fresh {
		l := link{orderNo: wanted[p], linked: true}
		if l.orderNo == 0 {
			l = link{orderNo: stubs[0]}
			stubs = stubs[1:]
		}
		made[p] = l
		arg.SourceNos, arg.PaymentIds = append(arg.SourceNos, p.source), append(arg.PaymentIds, p.id)
		arg.OrderNos, arg.Linked = append(arg.OrderNos, l.orderNo), append(arg.Linked, l.linked)
	}
	added, err := tx.q.AddPayments(ctx, arg)
	if err != nil {
		return fmt.Errorf("add payments: %w", err)
	}
	for _, r := range added {
		p := payment{r.SourceNo, r.PaymentID}
		links[p] = made[p]
		delete(made, p)
	}
	var unused []int64
	for _, l := range made {
		if !l.linked {
			unused = append(unused, l.orderNo)
		}
	}
	if unused != nil {
		if err := tx.q.DeleteStubs(ctx, unused); err != nil {
			return fmt.Errorf("delete stubs: %w", err)
		}
	}
	return nil
}

func columns(ps []payment) (sources []int16, ids []string) {
	sources, ids = make([]int16, len(ps)), make([]string, len(ps))
	for i, p := range ps {
		sources[i], ids[i] = p.source, p.id
	}
	return sources, ids
}
