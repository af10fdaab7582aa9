package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// SameReadings says of each fact whether its order's set holds its event under
// the same reading, and which order holds the event at all, 0 if none is found.
// It makes nothing and locks nothing.
func (tx Tx) SameReadings(ctx context.Context, facts []Fact) (same []bool, holders []int64, err error) {
	same, holders = make([]bool, len(facts)), make([]int64, len(facts))
	if len(facts) == 0 {
		return same, holders, nil
	}
	var sources, ids []string
	payments := map[payment]link{}
	for i := range facts {
		sources = append(sources, facts[i].Source)
		if facts[i].OrderID != "" {
			ids = append(ids, facts[i].OrderID)
		}
	}
	nos, err := tx.nameNos(ctx, sources...)
	if err != nil {
		return nil, nil, err
	}
	orders := map[string]int64{}
	if err := tx.findOrders(ctx, ids, orders); err != nil {
		return nil, nil, err
	}
	for i := range facts {
		if facts[i].Payment != "" {
			payments[payment{nos[facts[i].Source], facts[i].Payment}] = link{}
		}
	}
	if err := tx.findPayments(ctx, slices.Collect(maps.Keys(payments)), payments); err != nil {
		return nil, nil, err
	}
	candidates, places := map[int64]bool{}, map[[16]byte][]int{}
	for i := range facts {
		f := &facts[i]
		candidates[orders[f.OrderID]], candidates[payments[payment{nos[f.Source], f.Payment}].orderNo] = true, true
		places[f.Hash] = append(places[f.Hash], i)
	}
	// By order alone: with the events as a second condition PostgreSQL may probe the index
	// for each pair of the two.
	rows, err := tx.q.LoadOrderEvents(ctx, slices.Sorted(maps.Keys(candidates)))
	if err != nil {
		return nil, nil, fmt.Errorf("find readings: %w", err)
	}
	for _, r := range rows {
		for _, i := range places[r.EventHash.Bytes] {
			holders[i], same[i] = r.OrderNo, same[i] || facts[i].ReadingHash == r.ReadingHash
		}
	}
	return same, holders, nil
}
