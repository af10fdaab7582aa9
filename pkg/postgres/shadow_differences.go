package postgres

import (
	"context"
	"fmt"
	"maps"
	"math/bits"
	"slices"

	"github.com/jackc/pgx/v5"

	"sluice/pkg/order"
)

// ShadowOrder is one order as the live state or the shadow has it.
type ShadowOrder struct {
	Status     order.Status  `json:"status"`
	Paid       int64         `json:"paid"`     // minor units of Currency
	Refunded   int64         `json:"refunded"` // likewise
	Currency   string        `json:"currency"`
	Dispute    order.Dispute `json:"dispute"`
	Held       []ShadowHeld  `json:"held"`
	Events     int           `json:"events"` // that state something
	registered bool
}

// ShadowHeld is an event that is held, and why.
type ShadowHeld struct {
	Source  string       `json:"source"`
	EventID string       `json:"event_id"`
	Reason  order.Reason `json:"reason"`
}

// same: versions are not compared, nor events that change nothing.
func (o *ShadowOrder) same(p *ShadowOrder) bool {
	return o.Status == p.Status && o.Paid == p.Paid && o.Refunded == p.Refunded && o.Dispute == p.Dispute && slices.Equal(o.Held, p.Held)
}

// Difference is one order that the shadow has otherwise.
type Difference struct {
	// Order is its id; of events whose order is not known, "payment ID".
	Order string `json:"order"`
	// Live and Shadow are nil where it is not there, or has nothing.
	Live   *ShadowOrder `json:"live"`
	Shadow *ShadowOrder `json:"shadow"`
}

// differencesPage is how many orders are compared at a time.
const differencesPage = 5000

// Differences hands every order that differs to do, and returns how many were
// compared: those that were brought, and those that only the shadow has.
func (s *Shadow) Differences(ctx context.Context, do func(Difference)) (compared int, err error) {
	// An event may lie in orders of other numbers, so names decide: what differs by
	// number is put together by name.
	live, shadow := map[string]*ShadowOrder{}, map[string]*ShadowOrder{}
	page := make([]int64, 0, differencesPage)
	compare := func(inLive bool) error {
		a := map[int64]namedOrder{}
		if inLive {
			if a, err = readShadowOrders(ctx, s.tx, s.live, page); err != nil {
				return err
			}
		}
		b, err := readShadowOrders(ctx, s.Store.pool, s.Schema, page)
		if err != nil {
			return err
		}
		for no, o := range a {
			if p, ok := b[no]; ok && p.name == o.name && o.same(&p.ShadowOrder) {
				compared++
				delete(b, no)
				continue
			}
			live[o.name] = &o.ShadowOrder
		}
		for _, o := range b {
			shadow[o.name] = &o.ShadowOrder
		}
		page = page[:0]
		return nil
	}
	for word, set := range s.brought {
		for ; set != 0; set &= set - 1 {
			if page = append(page, int64(word*64+bits.TrailingZeros64(set))); len(page) == differencesPage {
				if err := compare(true); err != nil {
					return 0, err
				}
			}
		}
	}
	if err := compare(true); err != nil {
		return 0, err
	}
	rows, err := s.Store.pool.Query(ctx, `SELECT order_no FROM orders WHERE order_no > $1`, s.lastNo)
	if err == nil {
		page, err = pgx.CollectRows(rows, pgx.RowTo[int64])
	}
	if err != nil {
		return 0, fmt.Errorf("read the shadow's own orders: %w", err)
	}
	if err := compare(false); err != nil {
		return 0, err
	}
	for name := range shadow {
		if live[name] == nil {
			live[name] = nil
		}
	}
	for _, name := range slices.Sorted(maps.Keys(live)) {
		compared++
		if a, b := live[name], shadow[name]; a == nil || b == nil || !a.same(b) {
			do(Difference{Order: name, Live: a, Shadow: b})
		}
	}
	return compared, nil
}

type namedOrder struct {
	name string
	ShadowOrder
}

// readShadowOrders reads orders by number; one that neither is registered nor has an
// event that states something is none.
func readShadowOrders(ctx context.Context, q querier, schema string, nos []int64) (map[int64]namedOrder, error) {
	orders := map[int64]namedOrder{}
	if len(nos) == 0 {
		return orders, nil
	}
	rows, err := q.Query(ctx, `SELECT order_no, coalesce(order_id, ''), registered_at IS NOT NULL, status, paid, refunded, currency, dispute
		FROM `+schema+`.orders WHERE order_no = ANY($1)`, nos)
	if err != nil {
		return nil, fmt.Errorf("read orders of %s: %w", schema, err)
	}
	var no int64
	var o namedOrder
	if _, err := pgx.ForEachRow(rows, []any{&no, &o.name, &o.registered, &o.Status, &o.Paid, &o.Refunded, &o.Currency, &o.Dispute}, func() error {
		orders[no] = o
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read orders of %s: %w", schema, err)
	}
	rows, err = q.Query(ctx, `SELECT e.order_no, n.name, e.event_id, e.payment_id, e.verdict, e.reason
		FROM `+schema+`.order_events e JOIN `+schema+`.names n ON n.name_no = e.source_no
		WHERE e.order_no = ANY($1) AND e.kind BETWEEN 1 AND $2 ORDER BY n.name, e.event_id`, nos, int16(order.KindCancelled))
	if err != nil {
		return nil, fmt.Errorf("read sets of %s: %w", schema, err)
	}
	var h ShadowHeld
	var payment string
	var verdict order.Verdict
	if _, err := pgx.ForEachRow(rows, []any{&no, &h.Source, &h.EventID, &payment, &verdict, &h.Reason}, func() error {
		o := orders[no]
		o.Events++
		if o.name == "" && payment != "" {
			o.name = "payment " + payment
		}
		if verdict == order.Held {
			o.Held = append(o.Held, h)
		}
		orders[no] = o
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read sets of %s: %w", schema, err)
	}
	for no, o := range orders {
		if !o.registered && o.Events == 0 {
			delete(orders, no)
		}
	}
	return orders, nil
}
