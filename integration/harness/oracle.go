package harness

import (
	"fmt"
	"time"

	"sluice/pkg/kafka"
	"sluice/pkg/status"
)

// BooksBalance waits until nothing is in flight, then holds the books against
// the raw topic: accepted = applied + no change + duplicate + held + dead.
func (d *Deployment) BooksBalance() {
	d.T.Helper()
	Eventually(d.T, "the books add up", 40*time.Second, func() error {
		accepted := int64(len(d.Records(kafka.Raw)))
		if committed := d.Committed(); committed != accepted {
			return fmt.Errorf("%d records accepted, %d committed", accepted, committed)
		}
		if counted := d.Count("SELECT coalesce(sum(events), 0)::bigint FROM books"); counted != accepted {
			return fmt.Errorf("%d records accepted, %d in the books", accepted, counted)
		}
		return nil
	})
}

// Sound waits for the relay and then holds everything that is promised of every
// deployment: nothing accepted is missing from the raw topic, the books add up,
// and for each order the state, the last transition and the last message agree,
// versions run 1..n on the topic, each names the status before it, and a message
// id comes once. Everything on every topic obeys the published
// contract. accepted are the event ids answered 2xx.
func (d *Deployment) Sound(accepted []string) {
	d.T.Helper()
	raw := map[string]bool{}
	for _, r := range d.Records(kafka.Raw) {
		raw[string(r.Key)] = true
	}
	for _, id := range accepted {
		if !raw[id] {
			d.T.Errorf("event %s was answered 2xx and is not in the raw topic", id)
		}
	}
	d.BooksBalance()
	if n := d.Count(`SELECT count(*) FROM orders o WHERE registered_at IS NOT NULL AND NOT EXISTS (
		SELECT FROM order_transitions t WHERE t.order_no = o.order_no AND t.version = o.version
		AND t.to_status = o.status AND t.paid = o.paid AND t.refunded = o.refunded)`); n != 0 {
		d.T.Errorf("%d orders differ from their last transition", n)
	}
	if n := d.Count(`SELECT count(*) FROM (SELECT order_no, count(*) n, max(version) v FROM order_transitions GROUP BY 1) t WHERE n <> v`); n != 0 {
		d.T.Errorf("%d orders have a gap in their versions", n)
	}
	Eventually(d.T, "everything is published", 40*time.Second, func() error {
		return d.published()
	})
	d.Lawful()
}

func (d *Deployment) published() error {
	type seen struct {
		version int64
		status  string
	}
	last := map[string]seen{}
	bytes := map[string]string{}
	for _, r := range d.Records(kafka.Status) {
		m, err := status.Decode(r.Value)
		if err != nil {
			return fmt.Errorf("read a status message: %w", err)
		}
		if was, ok := bytes[m.ID()]; ok {
			if was != string(r.Value) {
				d.T.Errorf("message %s was published with two contents", m.ID())
			} else {
				d.T.Errorf("message %s was published twice", m.ID())
			}
			continue
		}
		bytes[m.ID()] = string(r.Value)
		if was := last[m.OrderID]; m.Version != was.version+1 {
			d.T.Errorf("order %s: version %d follows %d on the topic", m.OrderID, m.Version, was.version)
		}
		last[m.OrderID] = seen{m.Version, m.Status.String()}
	}
	rows, err := d.db.Query(d.T.Context(), "SELECT order_id, version, status FROM orders WHERE registered_at IS NOT NULL")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		var version int64
		var s int16
		if err := rows.Scan(&id, &version, &s); err != nil {
			return err
		}
		if last[id].version != version {
			return fmt.Errorf("order %s is at version %d, the topic at %d", id, version, last[id].version)
		}
	}
	return rows.Err()
}
