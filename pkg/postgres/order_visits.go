package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/pkg/order"
	"sluice/pkg/postgres/internal/dbgen"
)

// Visit says which orders of a source are asked about.
type Visit struct {
	Source string
	// Endpoint is whose account is asked with where no event says.
	Endpoint string
	// Frontier is Frontier.Advance's: what lies beyond is visited later.
	Frontier int64
	// RegisteredBefore is the latest registration that is old enough.
	RegisteredBefore time.Time
	// ByOrder: the provider can be asked about orders of which no payment is known.
	ByOrder bool
	// ReviewAt is when a person is asked about what is still pending.
	ReviewAt time.Time
	// Limit bounds one visit, in transitions passed.
	Limit int
}

// Visited is what a visit did.
type Visited struct {
	// Orders were registered long enough ago, Hanging of them are pending and will be
	// asked about from now on.
	Orders, Hanging int
	// More: call again.
	More bool
}

// VisitOrders visits the orders of a deployment in the order of their registration,
// each once for a source, and arms a look-up of each that is pending: of its payments
// at the source; or, where nobody knows a payment of it, of the order. What moves on
// afterwards closes its look-up. It reads the history, which is there anyway: orders
// need no index by status, and registrations no write.
//
// Several reconcilers may call it: one at a time finds something to do.
func (s *Store) VisitOrders(ctx context.Context, now time.Time, v Visit) (done Visited, err error) {
	err = s.InTx(ctx, func(tx Tx) error {
		done = Visited{}
		nos, err := tx.nameNos(ctx, v.Source, v.Endpoint)
		if err != nil {
			return err
		}
		if err := tx.q.BeginOrderVisits(ctx, nos[v.Source]); err != nil {
			return err
		}
		after, err := tx.q.ClaimOrderVisits(ctx, nos[v.Source])
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		rows, err := tx.q.RegistrationsAfter(ctx, after, v.Frontier, int32(v.Limit))
		if err != nil {
			return err
		}
		var registered []int64
		last := after
		done.More = len(rows) == v.Limit
		for _, r := range rows {
			if !r.ChangedAt.Time.Before(v.RegisteredBefore) {
				done.More = false
				break
			}
			if last = r.ID; r.Registration {
				registered = append(registered, r.OrderNo)
			}
		}
		done.Orders = len(registered)
		if last == after {
			return nil
		}
		if done.Hanging, err = tx.armHanging(ctx, now, v, nos, registered); err != nil {
			return err
		}
		return tx.q.EndOrderVisits(ctx, last, nos[v.Source])
	})
	if err != nil {
		return Visited{}, fmt.Errorf("visit orders for source %s: %w", v.Source, err)
	}
	return done, nil
}

// armHanging arms the look-ups of those orders that are pending, and counts them.
func (tx Tx) armHanging(ctx context.Context, now time.Time, v Visit, nos map[string]int16, orderNos []int64) (int, error) {
	if len(orderNos) == 0 {
		return 0, nil
	}
	pending, err := tx.q.PendingOrders(ctx, orderNos, int16(order.Pending))
	if err != nil || len(pending) == 0 {
		return 0, err
	}
	orderNos = orderNos[:0]
	for _, o := range pending {
		orderNos = append(orderNos, o.OrderNo)
	}
	rows, err := tx.q.PaymentsOfOrders(ctx, orderNos)
	if err != nil {
		return 0, err
	}
	payments := map[int64][]dbgen.PaymentsOfOrdersRow{}
	for _, r := range rows {
		payments[r.OrderNo] = append(payments[r.OrderNo], r)
	}
	source, n := nos[v.Source], 0
	var toArm []arming
	for _, o := range pending {
		target := Target{Order: o.OrderID.String, Amount: o.Amount, Currency: o.Currency, Time: o.RegisteredAt.Time}
		hanging := arming{lane: LaneHanging, reviewAt: v.ReviewAt, orderNo: o.OrderNo, endpointNo: nos[v.Endpoint]}
		before := len(toArm)
		for _, p := range payments[o.OrderNo] {
			if p.SourceNo != source {
				continue
			}
			h := hanging
			h.object, h.endpointNo, h.target = object{source, p.PaymentID}, p.EndpointNo, target
			h.target.Object, h.target.Payment, h.target.Type, h.target.Subject = p.PaymentID, p.PaymentID, p.EventType, p.ObjectID
			toArm = append(toArm, h)
		}
		if len(payments[o.OrderNo]) == 0 && v.ByOrder {
			h := hanging
			h.object, h.target = object{source, target.Order}, target
			h.target.Object = target.Order
			toArm = append(toArm, h)
		}
		if len(toArm) > before {
			n++
		}
	}
	return n, tx.armBeside(ctx, now, source, toArm)
}

// armBeside arms look-ups of one source for what hangs. An object that is asked about
// anyway goes on as it is, for a hint says more about how to ask.
func (tx Tx) armBeside(ctx context.Context, now time.Time, sourceNo int16, wanted []arming) error {
	about := make([]object, len(wanted))
	for i, w := range wanted {
		about[i] = w.object
	}
	there, err := tx.lockLookups(ctx, about)
	if err != nil {
		return err
	}
	toArm, seen := make([]arming, 0, len(wanted)), map[object]bool{}
	join := dbgen.JoinLookupsParams{SourceNo: sourceNo}
	for _, w := range wanted {
		if seen[w.object] {
			continue
		}
		seen[w.object] = true
		if l, ok := there[w.object]; ok && l.Answered < l.Armed {
			join.Objects, join.OrderNos, join.EventHashes = append(join.Objects, w.id), append(join.OrderNos, w.orderNo), append(join.EventHashes, w.event)
			continue
		}
		toArm = append(toArm, w)
	}
	if len(join.Objects) > 0 {
		if err := tx.q.JoinLookups(ctx, join); err != nil {
			return fmt.Errorf("join look-ups: %w", err)
		}
	}
	_, err = tx.arm(ctx, now, toArm)
	return err
}
