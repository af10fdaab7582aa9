package postgres_test

import (
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"sluice/pkg/event"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
)

// misread is a set of events as a broken rule read them, and as the right one does.
type misread struct {
	ids          []string // orders
	registered   []postgres.Fact
	wrong, right []postgres.Fact
	decisions    []order.Entry // about events; each belongs into the set that has its target
}

func drawMisread(t *rapid.T, id string) misread {
	m := misread{ids: []string{id + "o0", id + "o1", id + "o2"}}
	for i, o := range m.ids {
		if rapid.IntRange(0, 4).Draw(t, "registered") == 0 {
			continue
		}
		e := order.Entry{Hash: event.Event{Source: postgres.Merchant, ID: o}.Hash(), Source: postgres.Merchant, Kind: order.KindRegistered,
			Time: at.UnixMilli() + int64(i), Amount: 100, Currency: "EUR"}
		m.registered = append(m.registered, postgres.Fact{Entry: e, OrderID: o, EventID: o, EventType: "order.registered", Endpoint: postgres.Merchant,
			AppendedAt: at, Partition: -1, Offset: -1})
	}
	reading := func(n int, right bool) postgres.Fact {
		f := postgres.Fact{EventID: fmt.Sprintf("%se%d", id, n), EventType: "t", Endpoint: "psp", AppendedAt: at, Offset: int64(n), Body: []byte("b")}
		f.Hash, f.Source = event.Event{Source: "psp", ID: f.EventID}.Hash(), "psp"
		f.ReadingHash = rapid.Int64Range(0, 1<<40).Draw(t, "reading hash")
		if rapid.IntRange(0, 4).Draw(t, "states nothing") == 0 {
			return f
		}
		f.Kind = order.Kind(rapid.IntRange(1, int(order.KindCancelled)).Draw(t, "kind"))
		f.Time = rapid.SampledFrom([]int64{0, 700, 1400, 2100, 2800}).Draw(t, "time")
		f.Object = rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "object")
		f.Amount = rapid.SampledFrom([]int64{100, 100, 30, 60}).Draw(t, "amount")
		f.Currency = rapid.SampledFrom([]string{"EUR", "EUR", "USD"}).Draw(t, "currency")
		p := rapid.IntRange(0, 3).Draw(t, "payment")
		o := rapid.IntRange(0, 2).Draw(t, "order")
		switch {
		case rapid.IntRange(0, 5).Draw(t, "no payment") == 0:
			f.OrderID = m.ids[o]
		case rapid.Bool().Draw(t, "by its payment"):
			f.Payment = fmt.Sprint(id, "p", p)
		case right: // a payment belongs to one order
			f.Payment, f.OrderID = fmt.Sprint(id, "p", p), m.ids[p%3]
		default:
			f.Payment, f.OrderID = fmt.Sprint(id, "p", p), m.ids[o]
		}
		return f
	}
	for n := range rapid.IntRange(1, 7).Draw(t, "events") {
		w := reading(n, false)
		r := w
		if rapid.Bool().Draw(t, "misread") || r.OrderID != "" && r.Payment != "" && r.OrderID != m.ids[(r.Payment[len(r.Payment)-1]-'0')%3] {
			r = reading(n, true)
		}
		m.wrong, m.right = append(m.wrong, w), append(m.right, r)
	}
	for n := range rapid.IntRange(0, 2).Draw(t, "decisions") {
		d := order.Entry{Source: postgres.Review, Time: at.UnixMilli() + int64(n), Target: rapid.SampledFrom(m.wrong).Draw(t, "about").Hash,
			Kind: rapid.SampledFrom([]order.Kind{order.KindAccept, order.KindDismiss}).Draw(t, "decision")}
		d.Hash = event.Event{Source: postgres.Review, ID: fmt.Sprint(id, "d", n)}.Hash()
		m.decisions = append(m.decisions, d)
	}
	return m
}

// shelf is a database whose sets are looked at.
type shelf struct {
	*postgres.Store
	db *sql.DB
}

func openShelf(t *testing.T) shelf {
	t.Helper()
	cfg := testkit.Database(t)
	s, err := postgres.Open(t.Context(), cfg, 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	db, err := sql.Open("pgx", cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return shelf{s, db}
}

// number is the answer to a query for one number.
func (k shelf) number(t *rapid.T, query string, args ...any) (n int64) {
	t.Helper()
	if err := k.db.QueryRow(query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// holder is the order that has an event, 0 if none has.
func (k shelf) holder(t *rapid.T, hash [16]byte) int64 {
	t.Helper()
	return k.number(t, `SELECT coalesce((SELECT order_no FROM order_events WHERE encode(uuid_send(event_hash), 'hex') = $1), 0)`, hex.EncodeToString(hash[:]))
}

// texts are the lines that a query answers.
func (k shelf) texts(t *rapid.T, query string, args ...any) (lines []string) {
	t.Helper()
	rows, err := k.db.Query(query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return lines
}

// apply applies facts in batches, and books what became of them.
func (k shelf) apply(t *rapid.T, facts []postgres.Fact) (written, unlearnt int) {
	t.Helper()
	for len(facts) > 0 {
		n := rapid.IntRange(1, len(facts)).Draw(t, "batch")
		err := k.InTx(context.Background(), func(tx postgres.Tx) error {
			a, err := tx.Apply(context.Background(), at, facts[:n])
			if err != nil {
				return err
			}
			for i, v := range a.Verdicts {
				f := &facts[i]
				if f.Endpoint == "psp" && (f.Anew == nil || slices.Contains(a.Added, i)) && v.Verdict != order.Duplicate {
					a.Moved.Add(f.AppendedAt, f.Endpoint, v.Verdict, 1)
				}
				if v.Verdict != order.Duplicate && a.OrderNos[i] != 0 {
					written++
				}
			}
			unlearnt += a.Unlearnt
			return tx.AddToBooks(context.Background(), [16]byte{1}, -3, a.Moved)
		})
		if err != nil {
			t.Fatal(err)
		}
		facts = facts[n:]
	}
	return written, unlearnt
}

// decide puts a decision into the set that has its target; false if none has.
func (k shelf) decide(t *rapid.T, d order.Entry) bool {
	t.Helper()
	no := k.holder(t, d.Target)
	if no != 0 {
		k.apply(t, []postgres.Fact{{Entry: d, OrderNo: no, EventID: hex.EncodeToString(d.Hash[:]), EventType: "review", Endpoint: postgres.Review,
			AppendedAt: at, Partition: -1, Offset: -1}})
	}
	return no != 0
}

// world is what the database says about the orders: state, sets, verdicts, what is
// held, and where payments lead, in words that do not depend on numbers.
func (k shelf) world(t *rapid.T, id string) []string {
	t.Helper()
	return k.texts(t, `
		SELECT 'order ' || order_id || ': ' || concat_ws(' ', status, paid, refunded, dispute, n_held) FROM orders
		WHERE starts_with(order_id, $1) AND (registered_at IS NOT NULL OR EXISTS (SELECT FROM order_events e WHERE e.order_no = orders.order_no AND e.kind BETWEEN 1 AND 10))
		UNION ALL
		SELECT 'event ' || concat_ws(' ', e.event_id, coalesce(o.order_id, 'stub of ' || e.payment_id), e.kind, e.verdict, e.reason, e.amount, e.payment_id, e.named, h.reason)
		FROM order_events e JOIN orders o USING (order_no) LEFT JOIN held_events h ON h.order_no = e.order_no AND h.event_hash = e.event_hash
		WHERE starts_with(e.event_id, $1) AND e.event_type = 't' AND e.kind <> 0
		UNION ALL
		SELECT 'decision ' || concat_ws(' ', d.event_id, d.order_no = e.order_no, d.verdict, d.reason)
		FROM order_events d JOIN order_events e ON d.object_id = encode(uuid_send(e.event_hash), 'hex') WHERE starts_with(e.event_id, $1) AND e.kind <> 0
		UNION ALL
		SELECT 'payment ' || p.payment_id || ' ' || coalesce(o.order_id, 'stub') FROM payments p JOIN orders o USING (order_no)
		WHERE starts_with(p.payment_id, $1) AND EXISTS (SELECT FROM order_events e WHERE e.payment_id = p.payment_id)
		ORDER BY 1`, id)
}

// Whatever a broken rule made of events, and however their bytes are read anew under
// the right one, the sets, the money, what is held and where payments lead are what
// they would be if the right rule had read them first; versions have no gap, the books
// follow, and another round writes nothing. (O44)
func TestReadingAnewEndsWhereAFoldFromScratchEnds(t *testing.T) {
	mended, scratch := openShelf(t), openShelf(t)
	var draws atomic.Int64
	rapid.Check(t, func(t *rapid.T) {
		id := fmt.Sprintf("%d/", draws.Add(1))
		m := drawMisread(t, id)
		states := func(fs []postgres.Fact) []postgres.Fact {
			return slices.DeleteFunc(slices.Clone(fs), func(f postgres.Fact) bool { return f.OrderID == "" && f.Payment == "" })
		}
		mended.apply(t, rapid.Permutation(append(slices.Clone(m.registered), states(m.wrong)...)).Draw(t, "arrival"))
		decided := slices.DeleteFunc(slices.Clone(m.decisions), func(d order.Entry) bool { return !mended.decide(t, d) })
		anew := slices.Clone(m.right)
		for i := range anew {
			anew[i].Anew = &postgres.Anew{OrderID: m.wrong[i].OrderID, Payment: m.wrong[i].Payment, Added: true}
			if no := mended.holder(t, anew[i].Hash); no != 0 {
				anew[i].Anew.OrderNos = []int64{no}
			}
		}
		for round, unlearnt := 0, 1; unlearnt > 0; round++ {
			if round == 4 {
				t.Fatal("it does not settle")
			}
			_, unlearnt = mended.apply(t, rapid.Permutation(anew).Draw(t, "round"))
		}
		before := mended.world(t, id)
		if written, _ := mended.apply(t, anew); written > 0 {
			t.Fatalf("another round writes %d events", written)
		}

		scratch.apply(t, rapid.Permutation(append(slices.Clone(m.registered), states(m.right)...)).Draw(t, "arrival from scratch"))
		for _, d := range decided {
			scratch.decide(t, d)
		}
		got, want := mended.world(t, id), scratch.world(t, id)
		if !slices.Equal(got, before) {
			t.Fatal("another round changes something")
		}
		if !slices.Equal(got, want) {
			t.Fatalf("read anew:\n%s\nfrom scratch:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if untold := mended.texts(t, `SELECT o.order_id FROM orders o LEFT JOIN order_transitions t ON t.order_no = o.order_no AND t.version = o.version
			WHERE starts_with(o.order_id, $1) AND o.registered_at IS NOT NULL
			AND (t.to_status, t.paid, t.refunded, t.dispute) IS DISTINCT FROM (o.status, o.paid, o.refunded, o.dispute)`, id); len(untold) > 0 {
			t.Fatalf("the last versions of %v are not what they are", untold)
		}
		if gaps := mended.texts(t, `SELECT order_id FROM (SELECT order_id, version - row_number() OVER (PARTITION BY order_no ORDER BY version) AS gap FROM order_transitions) g
			WHERE gap <> 0 AND starts_with(order_id, $1)`, id); len(gaps) > 0 {
			t.Fatalf("versions of %v have gaps", gaps)
		}
		if wrong := mended.texts(t, `SELECT verdict || ': ' || sum(n) FROM (
			SELECT b.verdict, -b.events AS n FROM books b JOIN names m ON m.name_no = b.endpoint_no WHERE m.name = 'psp'
			UNION ALL SELECT verdict, count(*) FROM order_events WHERE event_type = 't' GROUP BY 1) v GROUP BY verdict HAVING sum(n) <> 0`); len(wrong) > 0 {
			t.Fatalf("the books do not say what the sets do: %v", wrong)
		}
	})
}
