package processor

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/pkg/effect"
	"sluice/pkg/endpoint"
	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
)

// stage is a store, and records that lie in no broker.
type stage struct {
	*world
	topicID [16]byte
	offsets [2]int64 // next of each partition
	effects effect.Set
}

func newStage(t testing.TB) *stage {
	t.Helper()
	w := &world{TB: t, database: testkit.Database(t)}
	var err error
	if w.store, err = postgres.Open(t.Context(), w.database, 4); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.store.Close)
	if w.db, err = sql.Open("pgx", w.database.URL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.db.Close() })
	w.endpoints = stripes(t, "stripe-eu", "stripe-us")
	set := effects(t, declaredEffects+"  - {name: refuse, on: {to: failed, corrections: false}, url: \"https://mail.example\", secret: env:S}\n")
	w.store.WithEffects(set)
	return &stage{world: w, topicID: [16]byte{7}, effects: set}
}

// stripes are endpoints of Stripe, beside the one whose states are sent anew.
func stripes(t testing.TB, names ...string) endpoint.Set {
	t.Helper()
	return acmes(t, updates, names...)
}

func acmes(t testing.TB, text string, names ...string) endpoint.Set {
	t.Helper()
	for _, name := range names {
		text += "  - {name: " + name + ", provider: stripe, secrets: [env:S]}\n"
	}
	return load(t, text)
}

// put gives records places in the topic.
func (s *stage) put(records ...kafka.Record) []kafka.Record {
	for i := range records {
		r := &records[i]
		r.Topic, r.Partition = "raw", int32(i%2)
		r.Offset = s.offsets[r.Partition]
		s.offsets[r.Partition]++
	}
	return records
}

func (s *stage) recordOf(e event.Event) kafka.Record {
	s.Helper()
	headers, err := e.Headers()
	if err != nil {
		s.Fatal(err)
	}
	return kafka.Record{Timestamp: now, Key: []byte(e.ID), Value: e.Body, Headers: headers}
}

func (s *stage) dryRun(store *postgres.Store, batch int, anew *Anew) *DryRun {
	s.Helper()
	d, err := NewDryRun(s.Context(), DryRunDeps{Store: store, Endpoints: s.endpoints, Mode: event.Live, Log: testkit.Log(s.TB), Now: func() time.Time { return now }},
		DryRunOptions{TopicID: s.topicID, Batch: batch, Anew: anew})
	if err != nil {
		s.Fatal(err)
	}
	return d
}

// real applies records for good, as a lane does, and counts what became of them.
func (s *stage) real(records []kafka.Record, batch int, g ground) *DryRun {
	s.Helper()
	window, err := s.store.EnsurePartitions(s.Context(), now)
	if err != nil {
		s.Fatal(err)
	}
	counted := &DryRun{ground: g, opts: DryRunOptions{Batch: batch}, outlook: Outlook{Batch: batch, Dead: map[string]int64{}}}
	counted.apply = applier{reader: reader{endpoints: s.endpoints, window: window, mode: event.Live}, log: testkit.Log(s.TB), now: func() time.Time { return now },
		inTx: s.store.InTx, stand: func(context.Context, postgres.Tx, []*record) (ground, error) { return g, nil }, committed: counted.tally}
	counted.look = looks{events: s.store.UnknownEvents, hints: func(ctx context.Context, places []postgres.Place) (open []int, err error) {
		dead, err := deadHints(ctx, s.store.InTx, s.topicID, places)
		for i, p := range places {
			if !g.met(p) || slices.Contains(dead, i) {
				open = append(open, i)
			}
		}
		return open, err
	}}
	if err := counted.Add(s.Context(), s.topicID, records); err != nil {
		s.Fatal(err)
	}
	return counted
}

// live is the ground of records above all that was applied.
func (s *stage) live() ground {
	return ground{topicID: s.topicID, applied: map[int32]int64{0: -1, 1: -1}}
}

// random is one deployment's traffic about a few orders, with everything that can go
// wrong in it.
type random struct {
	*rand.Rand
	*stage
	n    int // of the round
	made int
	old  []event.Event
}

func pick[T any](r *random, from ...T) T { return from[r.IntN(len(from))] }

func (r *random) order() string { return fmt.Sprintf("ord_%d_%d", r.n, r.IntN(4)) }

// event is a new one, or an old one that comes again, the same or changed.
func (r *random) event() event.Event {
	if len(r.old) > 0 && r.IntN(3) == 0 {
		e := pick(r, r.old...)
		switch r.IntN(6) {
		case 0: // says something else
			e.Body = []byte(strings.ReplaceAll(string(e.Body), "1000", pick(r, "400", "600")))
		case 1: // says the same
			e.Body = append(slices.Clone(e.Body), ' ')
		case 2: // says nothing any more
			e.Body = []byte("{")
		}
		e.BodySHA256 = [32]byte{}
		return e
	}
	r.made++
	id := fmt.Sprintf("evt_%d_%d", r.n, r.made)
	at := now.Add(-time.Hour + time.Duration(r.IntN(4))*time.Second)
	switch r.IntN(14) {
	case 0:
		at = now.AddDate(-1, 0, 0) // outside the window
	case 1:
		at = now.Add(48 * time.Hour) // ahead of its receipt
	}
	var e event.Event
	if payment := r.IntN(4); r.IntN(5) == 0 {
		e = version(fmt.Sprintf("pay_%d_%d", r.n, payment), fmt.Sprintf("ord_%d_%d", r.n, payment), pick(r, "open", "failed", "paid", "paid"), pick[int64](r, 1000, 1000, 400), r.IntN(4))
	} else {
		s := stated{id: id, payment: fmt.Sprintf("pi_%d_%d", r.n, payment), object: fmt.Sprintf("re_%d", r.IntN(3)), at: at,
			kind:   pick(r, order.KindNone, order.KindPaid, order.KindPaid, order.KindPaid, order.KindFailed, order.KindCancelled, order.KindRefund, order.KindRefundTotal),
			amount: pick[int64](r, 1000, 1000, 1000, 400, 600), endpoint: pick(r, "stripe-eu", "stripe-eu", "stripe-us")}
		if r.IntN(3) > 0 {
			s.order = fmt.Sprintf("ord_%d_%d", r.n, payment)
		} else if r.IntN(6) == 0 {
			s.order = r.order() // crossed, perhaps
		}
		if r.IntN(12) == 0 {
			s.mode = event.Test
		}
		e = s.event()
	}
	switch r.IntN(25) {
	case 0, 4:
		e.Trust = event.Hint
	case 1:
		e.Body = []byte("{") // unreadable
	case 2:
		e.Endpoint, e.Source = "gone", "gone"
	case 3:
		e.Body = []byte(strings.ReplaceAll(strings.ReplaceAll(string(e.Body), "ord_", "\\u0000"), "pi_", "\\u0000")) // names that cannot be stored
	}
	r.old = append(r.old, e)
	return e
}

func (r *random) records(n int) []kafka.Record {
	out := make([]kafka.Record, n)
	for i := range out {
		out[i] = r.recordOf(r.event())
		switch r.IntN(30) {
		case 0:
			out[i].Value = nil // tombstone
		case 1:
			out[i].Headers = nil
		}
	}
	return out
}

// people and time pass: what happens to a deployment between a record and its replay.
func (r *random) passes() {
	r.Helper()
	exec := func(query string, args ...any) {
		r.Helper()
		if _, err := r.db.Exec(query, args...); err != nil {
			r.Fatal(err)
		}
	}
	for i := range 4 {
		if r.IntN(2) == 0 {
			r.register(1000, fmt.Sprintf("ord_%d_%d", r.n, i))
		}
	}
	exec(`DELETE FROM processed_events WHERE ('x' || right(key::text, 2))::bit(8)::int < $1`, pick(r, 0, 100, 256))
	exec(`UPDATE effects SET attempt = 1, state = CASE WHEN effect = 'mail' THEN 4 ELSE 2 END WHERE ('x' || left(key::text, 2))::bit(8)::int < $1`, pick(r, 0, 128))
	exec(`UPDATE dead_letters SET settled_at = now(), settled_as = 'discarded' WHERE record_offset % 4 = $1 AND settled_at IS NULL`, pick(r, 0, 9))
	if r.IntN(2) == 0 {
		err := r.store.InTx(r.Context(), func(tx postgres.Tx) error {
			_, err := tx.ReviewDueHeldEvents(r.Context(), now.AddDate(1, 0, 0), 1000)
			return err
		})
		if err != nil {
			r.Fatal(err)
		}
	}
	exec(`UPDATE review_items SET settled_at = now(), decision = 'dismiss' WHERE kind <> 'held' AND settled_at IS NULL AND id % 3 < $1`, pick(r, 0, 2))
	if r.IntN(3) > 0 {
		exec(`UPDATE lookups SET begun = armed, answered = armed, answered_at = $1::timestamptz`, now.Add(pick(r, -time.Hour, time.Hour)))
		exec(`UPDATE hints SET settled_at = now()`)
	}
}

// picture is what an outlook speaks of, as the database has it.
type picture struct {
	events, effects, reviews, letters map[string]string
	transition                        int64
}

func (s *stage) picture() (p picture) {
	s.Helper()
	rows := func(query string) map[string]string {
		s.Helper()
		out := map[string]string{}
		var k, v string
		s.each(query, nil, []any{&k, &v}, func() { out[k] = v })
		return out
	}
	// An event counts once, wherever it is.
	p.events = rows(`SELECT event_hash::text, verdict || ' ' || reason || ' ' || reading_hash || '@' || occurred_at FROM order_events WHERE kind NOT IN (11, 12, 13)`)
	p.effects = rows(`SELECT key::text, effect || ' ' || state || ' ' || outdated FROM effects`)
	p.reviews = rows(`SELECT kind || ' ' || subject, settled_at IS NULL FROM review_items`)
	p.letters = rows(`SELECT partition || '/' || record_offset, revived_at IS NULL FROM dead_letters`)
	p.transition = s.number(`SELECT coalesce(max(id), 0) FROM order_transitions`)
	return p
}

// happened completes what was counted of records with what the database shows.
func (s *stage) happened(counted *DryRun, before picture) Outlook {
	s.Helper()
	o, after := counted.outlook, s.picture()
	o.Held = map[string]int64{}
	turns, steps := map[Turn]int64{}, map[Step]int64{}
	for k, v := range after.events {
		var is, was order.Judgement
		var reading, other string
		scan(s, v, &is.Verdict, &is.Reason, &reading)
		switch old, there := before.events[k]; {
		case !there && is.Verdict == order.Applied:
			o.Applied++
		case !there && is.Verdict == order.Held:
			o.Held[is.Reason.String()]++
		case !there:
			o.NoChange++
		default:
			if scan(s, old, &was.Verdict, &was.Reason, &other); was != is {
				turns[Turn{From: was.Verdict, FromReason: was.Reason, To: is.Verdict, ToReason: is.Reason}]++
			}
			if reading != other {
				o.Updated++
			}
		}
	}
	for t, n := range turns {
		t.Events = n
		o.Older = append(o.Older, t)
	}
	orders := map[string]Step{}
	var id string
	var from, to, correction int64
	s.each(`SELECT order_id, from_status, to_status, correction::int FROM order_transitions WHERE id > $1 ORDER BY version`,
		[]any{before.transition}, []any{&id, &from, &to, &correction}, func() {
			if first, ok := orders[id]; ok {
				from = int64(first.From)
			}
			orders[id] = Step{From: order.Status(from), To: order.Status(to)}
			o.Messages++
			o.Corrections += correction
		})
	for _, step := range orders {
		steps[step]++
	}
	for step, n := range steps {
		o.Orders += n
		step.Orders = n
		o.Steps = append(o.Steps, step)
	}
	o.Effects, o.Review = effectsBetween(s, before, after), reviewsBetween(before, after)
	o.NewlyDead = int64(len(after.letters) - len(before.letters))
	for k, open := range after.letters {
		if before.letters[k] != "false" && open == "false" {
			o.Revived++
		}
	}
	o.sort()
	return o
}

func effectsBetween(s *stage, before, after picture) (out []EffectOutlook) {
	sums := map[string]EffectOutlook{}
	for k, v := range after.effects {
		var name, outdated, wasOutdated string
		var state, was effect.State
		scan(s, v, &name, &state, &outdated)
		sum := sums[name]
		sum.Effect = name
		old, there := before.effects[k]
		scan(s, cmp.Or(old, v), &name, &was, &wasOutdated)
		switch {
		case !there && state == effect.Pending:
			sum.Caused++
		case old == v, !there:
			continue
		case outdated == "true" && wasOutdated == "false":
			sum.Outdated++
		case state == effect.Withdrawn && was != effect.Withdrawn:
			sum.Withdrawn++
		case state == effect.Pending && was > effect.Leased:
			sum.Again++
		default:
			continue
		}
		sums[name] = sum
	}
	for _, sum := range sums {
		out = append(out, sum)
	}
	return out
}

func reviewsBetween(before, after picture) (out []ReviewOutlook) {
	sums := map[string]ReviewOutlook{}
	for k, open := range after.reviews {
		kind, _, _ := strings.Cut(k, " ")
		sum := sums[kind]
		sum.Kind = kind
		switch {
		case open == "true" && before.reviews[k] != "true":
			sum.Opened++
		case open == "false" && before.reviews[k] == "true":
			sum.Settled++
		default:
			continue
		}
		sums[kind] = sum
	}
	for _, sum := range sums {
		out = append(out, sum)
	}
	return out
}

func scan(s *stage, text string, into ...any) {
	s.Helper()
	fields := strings.Fields(text)
	for i, to := range into {
		var err error
		switch to := to.(type) {
		case *string:
			*to = fields[i]
		case *int64:
			_, err = fmt.Sscan(fields[i], to)
		default:
			n := int64(0)
			_, err = fmt.Sscan(fields[i], &n)
			switch to := to.(type) {
			case *order.Verdict:
				*to = order.Verdict(n)
			case *order.Reason:
				*to = order.Reason(n)
			case *effect.State:
				*to = effect.State(n)
			default:
				err = errors.New("no such field")
			}
		}
		if err != nil {
			s.Fatal(err)
		}
	}
}

// each does something for each row of a query.
func (s *stage) each(query string, args, into []any, do func()) {
	s.Helper()
	rows, err := s.db.Query(query, args...)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			s.Fatal(err)
		}
		do()
	}
	if err := rows.Err(); err != nil {
		s.Fatal(err)
	}
}

func text(o Outlook) string {
	o.Samples = Samples{}
	b, _ := json.MarshalIndent(o, "", " ")
	return string(b)
}

// O44: what a replay would do is told before, exactly.
func TestADryRunTellsWhatReallyHappensThen(t *testing.T) {
	s := newStage(t)
	if _, err := s.store.EnsurePartitions(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	var sum Outlook
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	first := rand.Uint64()
	for round := 0; round < rounds || round < 5*rounds && missing(sum) != ""; round++ {
		seed := first + uint64(round)
		r := &random{Rand: rand.New(rand.NewPCG(seed, 0)), stage: s, n: round}
		for i := range 4 {
			if r.IntN(2) == 0 {
				s.register(1000, fmt.Sprintf("ord_%d_%d", round, i))
			}
		}
		lived := s.put(r.records(r.IntN(40))...)
		s.endpoints = stripes(t, "stripe-eu", "stripe-us")
		s.real(lived, 1+r.IntN(12), s.live())
		r.passes()
		if r.IntN(2) == 0 { // somebody configures the endpoint that was not
			s.endpoints = stripes(t, "stripe-eu", "stripe-us", "gone")
		}
		// The span: what was applied before, in another order and of other partitions, and
		// records that nobody has applied.
		span := slices.Concat(lived, s.put(r.records(r.IntN(40))...))
		if r.IntN(2) == 0 { // the partitions' records meet in another order
			slices.SortStableFunc(span, func(a, b kafka.Record) int {
				return cmp.Compare(int64(a.Partition)*int64(round%40)+a.Offset, int64(b.Partition)*int64(round%40)+b.Offset)
			})
		}
		g := s.live()
		g.applied = map[int32]int64{0: s.offsets[0] - int64(r.IntN(15)), 1: s.offsets[1] - int64(r.IntN(15))}
		if r.IntN(3) == 0 {
			g.applied = nil
		}
		batch, chunk := 1+r.IntN(12), 1+r.IntN(30)
		dry := s.dryRun(s.store, batch, nil)
		dry.ground = g
		before, trace := s.picture(), s.trace()
		counted := s.real(nil, batch, g)
		for part := range slices.Chunk(span, chunk) {
			if err := dry.Add(t.Context(), s.topicID, part); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		got := dry.Report()
		if after := s.trace(); after != trace {
			t.Fatalf("seed %d: the dry run left a trace:\n%s\nbefore:\n%s", seed, after, trace)
		}
		for part := range slices.Chunk(span, chunk) {
			if err := counted.Add(t.Context(), s.topicID, part); err != nil {
				t.Fatal(err)
			}
		}
		want := s.happened(counted, before)
		if got, want := text(got), text(want); got != want {
			t.Fatalf("seed %d = %d + %d, %d records in batches of %d: foretold and happened differ:\n%s\nHAPPENED %s", seed, first, round, len(span), batch, differ(got, want), want)
		}
		s.addsUp(got, seed)
		add(&sum, got)
	}
	if what := missing(sum); what != "" && !testing.Short() {
		t.Errorf("no round had any %s:\n%s", what, text(sum))
	}
}

// missing is something that an outlook can tell and that none did.
func missing(sum Outlook) string {
	for what, n := range map[string]int64{"tombstones": sum.Tombstones, "duplicates": sum.Duplicates, "hints": sum.Hints, "dead": total(sum.Dead),
		"revived": sum.Revived, "other mode": sum.OtherMode, "held": total(sum.Held), "updated": sum.Updated, "older": int64(len(sum.Older)),
		"corrections": sum.Corrections, "effects": int64(len(sum.Effects)), "reviews": int64(len(sum.Review))} {
		if n == 0 {
			return what
		}
	}
	return ""
}

// addsUp: every record is told of once, and what is new too.
func (s *stage) addsUp(got Outlook, seed uint64) {
	s.Helper()
	if all := got.Tombstones + got.Duplicates + got.New + got.Mended + got.Hints + total(got.Dead); all != got.Records {
		s.Fatalf("seed %d: %d of %d records are told of:\n%s", seed, all, got.Records, text(got))
	}
	if all := got.Applied + got.NoChange + got.OtherMode + total(got.Held); all != got.New {
		s.Fatalf("seed %d: %d of %d new events are told of:\n%s", seed, all, got.New, text(got))
	}
}

// The same of bytes that are read anew under other rules.
func TestADryRunOfReadingAnewTellsWhatReallyHappensThen(t *testing.T) {
	s := newStage(t)
	if _, err := s.store.EnsurePartitions(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	rules := func(names []string, from, to string) endpoint.Set {
		return acmes(t, strings.Replace(updates, from, to, 1), names...)
	}
	changes := [][2]string{{"type: open, kind: pending", "type: open, kind: failed"}, {"type: paid, kind: paid", "type: settled, kind: paid"},
		{"amount: amount", "amount: updated"}, {"order: order", "order: nowhere"}, {"payment: id", "payment: order"}, {"", ""}}
	rounds := 40
	if testing.Short() {
		rounds = 10
	}
	var sum Outlook
	first := rand.Uint64()
	for round := range rounds {
		seed := first + uint64(round)
		r := &random{Rand: rand.New(rand.NewPCG(seed, 0)), stage: s, n: round}
		for i := range 4 {
			if r.IntN(3) > 0 {
				s.register(1000, fmt.Sprintf("ord_%d_%d", round, i))
			}
		}
		was := pick(r, changes...)
		s.endpoints = rules([]string{"stripe-eu", "stripe-us"}, was[0], was[1])
		lived := s.put(r.records(r.IntN(50))...)
		s.real(lived, 1+r.IntN(12), s.live())
		r.passes()
		is := pick(r, changes...)
		s.endpoints = rules([]string{"stripe-eu", "stripe-us", "gone"}[:2+r.IntN(2)], is[0], is[1])
		anew := &Anew{}
		if r.IntN(2) == 0 {
			for _, v := range []order.Verdict{order.Applied, order.NoChange, order.Held, order.Dead} {
				if r.IntN(2) == 0 {
					anew.Verdicts = append(anew.Verdicts, v)
				}
			}
		}
		batch := 1 + r.IntN(12)
		dry := s.dryRun(s.store, batch, anew)
		before, trace := s.picture(), s.trace()
		again := NewAgain(AgainDeps{Store: s.store, Endpoints: s.endpoints, Mode: event.Live, Log: testkit.Log(t), Now: func() time.Time { return now },
			Window: s.store.WindowAt(now), Anew: anew})
		counted := s.real(nil, batch, s.live())
		again.apply.committed = counted.tally
		if err := dry.Add(t.Context(), s.topicID, lived); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		got := dry.Report()
		if after := s.trace(); after != trace {
			t.Fatalf("seed %d: the dry run left a trace:\n%s\nbefore:\n%s", seed, after, trace)
		}
		counted.outlook.Records = int64(len(lived))
		rest := lived[:0:0]
		for _, l := range lived { // which change nothing
			if l.Value == nil {
				counted.outlook.Tombstones++
			} else {
				rest = append(rest, l)
			}
		}
		for part := range slices.Chunk(rest, batch) {
			if err := again.Look(t.Context(), s.topicID, part); err != nil {
				t.Fatal(err)
			}
		}
		want := s.happened(counted, before)
		if got, want := text(got), text(want); got != want {
			t.Fatalf("seed %d, %d records in batches of %d: foretold and happened differ:\n%s", seed, len(lived), batch, differ(got, want))
		}
		s.addsUp(got, seed)
		add(&sum, got)
		sum.Mended += got.Mended
	}
	if sum.Mended == 0 || sum.Messages == 0 || sum.Corrections == 0 {
		t.Error("no round had anything to change")
	}
}

func total(m map[string]int64) (n int64) {
	for _, k := range m {
		n += k
	}
	return n
}

func add(sum *Outlook, o Outlook) {
	sum.Tombstones, sum.Duplicates, sum.Hints, sum.Revived = sum.Tombstones+o.Tombstones, sum.Duplicates+o.Duplicates, sum.Hints+o.Hints, sum.Revived+o.Revived
	sum.OtherMode, sum.Updated, sum.Corrections = sum.OtherMode+o.OtherMode, sum.Updated+o.Updated, sum.Corrections+o.Corrections
	sum.Applied, sum.Messages = sum.Applied+o.Applied, sum.Messages+o.Messages
	if sum.Dead == nil {
		sum.Dead, sum.Held = map[string]int64{}, map[string]int64{}
	}
	for k, n := range o.Dead {
		sum.Dead[k] += n
	}
	for k, n := range o.Held {
		sum.Held[k] += n
	}
	sum.Older, sum.Effects, sum.Review = append(sum.Older, o.Older...), append(sum.Effects, o.Effects...), append(sum.Review, o.Review...)
}

// differ are the lines of two texts that differ.
func differ(got, want string) string {
	var b strings.Builder
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for _, line := range g {
		if !slices.Contains(w, line) {
			fmt.Fprintln(&b, "foretold", line)
		}
	}
	for _, line := range w {
		if !slices.Contains(g, line) {
			fmt.Fprintln(&b, "happened", line)
		}
	}
	return b.String() + "\nforetold:\n" + got
}

// Its name says nothing of a hint: whoever sends one can choose it.
func TestAnUnreadableEventDoesNotKeepAHintOfItsNameFromBeingHeld(t *testing.T) {
	s := newStage(t)
	e := stated{id: "evt", order: "ord", payment: "pi", kind: order.KindPaid, amount: 1000}.event()
	unreadable, hint := e, e
	unreadable.Body, hint.Trust = []byte("{"), event.Hint
	o := s.real(s.put(s.recordOf(unreadable), s.recordOf(hint)), 2, s.live()).outlook
	if o.Hints != 1 || o.Dead[deadBody] != 1 {
		t.Errorf("%d hints are held and %d records are dead, want one of each", o.Hints, o.Dead[deadBody])
	}
}

// A database that is only read shows nothing of a dry run, and one that may only be
// read is enough for it.
func TestADryRunLeavesNoTrace(t *testing.T) {
	s := newStage(t)
	r := &random{Rand: rand.New(rand.NewPCG(1, 2)), stage: s}
	var first, second []kafka.Record
	for r.n = range 20 {
		s.register(1000, r.order(), r.order())
		first, second = append(first, r.records(10)...), append(second, r.records(10)...)
	}
	lived := s.put(first...)
	s.real(lived, 50, s.live())
	if _, err := s.db.Exec(`DELETE FROM processed_events WHERE ('x' || right(key::text, 2))::bit(8)::int < 128`); err != nil {
		t.Fatal(err)
	}
	span := slices.Concat(lived, s.put(second...))
	role := fmt.Sprintf("reader_%d", time.Now().UnixNano())
	for _, q := range []string{`CREATE ROLE ` + role + ` LOGIN PASSWORD '` + role + `'`, `GRANT SELECT ON ALL TABLES IN SCHEMA public TO ` + role} {
		if _, err := s.db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, q := range []string{`DROP OWNED BY ` + role, `DROP ROLE ` + role} {
			if _, err := s.db.Exec(q); err != nil {
				t.Error(err)
			}
		}
	})
	address, err := url.Parse(s.database.URL)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*url.URL, url.Values){
		"as the processor":           func(*url.URL, url.Values) {},
		"read-only by default":       func(_ *url.URL, q url.Values) { q.Set("default_transaction_read_only", "on") },
		"with a right to read alone": func(u *url.URL, _ url.Values) { u.User = url.UserPassword(role, role) },
	} {
		t.Run(name, func(t *testing.T) {
			u, q := *address, address.Query()
			change(&u, q)
			q.Set("application_name", "dry run")
			u.RawQuery = q.Encode()
			store, err := postgres.Open(t.Context(), postgres.Config{URL: u.String()}, 2)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(store.Close)
			before := s.trace()
			d := s.dryRun(store.WithEffects(s.effects), 50, nil)
			transactions := 0
			d.apply.inTx = func(ctx context.Context, do func(postgres.Tx) error) error {
				return d.tables.InTx(ctx, func(tx postgres.Tx) error {
					err := do(tx)
					transactions++
					// A lock on a row, or on what others write, needs a number of a transaction.
					if n := s.number(`SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
						WHERE a.application_name = 'dry run' AND NOT (l.mode = 'AccessShareLock' OR l.locktype = 'virtualxid')`); n != 0 {
						t.Errorf("%d locks are held that nobody needs who reads", n)
					}
					return err
				})
			}
			if err := d.Add(t.Context(), s.topicID, span); err != nil {
				t.Fatal(err)
			}
			if o := d.Report(); o.Messages == 0 || len(o.Effects) == 0 || len(o.Review) == 0 || transactions == 0 {
				t.Fatalf("it did not meet much:\n%s", text(o))
			}
			if after := s.trace(); after != before {
				t.Errorf("after it:\n%s\nbefore:\n%s", after, before)
			}
		})
	}
}

// trace is a line for each table and sequence: how much is in it, and a hash.
func (s *stage) trace() string {
	s.Helper()
	var lines []string
	ask := func(query string) (out []string) {
		s.Helper()
		var line string
		s.each(query, nil, []any{&line}, func() { out = append(out, line) })
		return out
	}
	for _, table := range ask(`SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname = 'public' ORDER BY 1`) {
		// xmax: a row lock leaves one.
		lines = append(lines, ask(fmt.Sprintf(`SELECT '%s ' || count(*) || ' ' || coalesce(md5(string_agg(t.x, '' ORDER BY t.x)), '')
			FROM (SELECT tableoid::text || ctid::text || xmin::text || xmax::text || r::text AS x FROM %s r) t`, table, table))...)
	}
	lines = append(lines, ask(`SELECT schemaname || '.' || sequencename || ' ' || coalesce(last_value, 0) FROM pg_sequences ORDER BY 1`)...)
	return strings.Join(lines, "\n")
}
