package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
)

// newMisread is a deployment whose acme events were all taken over under the wrong layout.
func newMisread(t *testing.T) *mourned {
	t.Helper()
	m := newMourned(t)
	m.misread = map[string]event.Event{}
	m.configure(testkit.MisreadLayout)
	for _, id := range []string{"amount", "right", "nothing", "kind", "wrong-order", "right-order", "dead"} {
		if _, err := m.store.Register(t.Context(), time.Now(), postgres.Registration{OrderID: id, Amount: 1000, Currency: "EUR"}); err != nil {
			t.Fatal(err)
		}
	}
	at := time.Now().Truncate(time.Second)
	for _, e := range []struct{ id, status, order, ref, amount string }{
		{"e_amount", "paid", "amount", "amount", "999"}, {"e_right", "paid", "right", "right", "1000"}, {"e_nothing", "settled", "nothing", "nothing", "1"},
		{"e_kind", "void", "kind", "kind", "1000"}, {"e_order", "paid", "wrong-order", "right-order", "1000"}, {"e_dead", "paid", "dead", "dead", `"confidential"`},
	} {
		body := fmt.Sprintf(`{"id":%q,"status":%q,"updated":%d,"order":%q,"ref":%q,"payment":"pay_%s","amount":%s,"total":1000,"currency":"EUR"}`,
			e.id, e.status, at.Unix(), e.order, e.ref, e.id, e.amount)
		one := event.Event{Source: "acme", ID: e.id, Type: e.status, Time: at, TimeRepeats: true, Mode: event.Live, Provider: "declared", Endpoint: "acme", Order: e.order,
			Payment: "pay_" + e.id, Trust: event.Signed, ContentType: "application/json", ReceivedAt: time.Now(), Body: []byte(body)}
		if e.id == "e_dead" { // ingress could not read it either
			one.ID, one.Type, one.Time, one.TimeRepeats, one.Order, one.Payment = "sha256:0dead0", event.Unreadable, time.Time{}, false, "", ""
		}
		m.misread[e.id] = one
		m.produce(one)
	}
	m.process()
	return m
}

// says runs a command whose answer is JSON, and returns the answer and the error.
func says[T any](t *testing.T, args ...string) (answer T, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	err = run(append(args, "--json"), &out, &errs)
	if out.Len() > 0 {
		if err := json.Unmarshal(out.Bytes(), &answer); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out.String())
		}
	}
	if strings.Contains(out.String()+errs.String(), "confidential") {
		t.Errorf("%v prints what is confidential", args)
	}
	return answer, err
}

// differing are the orders of a forecast or a shadow, by what they would be.
type differing struct {
	Compared int
	Mended   int64
	Versions int64
	Gone     int64
	Orders   []struct {
		Order        string
		Live, Shadow *struct{ Status string }
	}
}

func (d differing) byOrder() map[string]string {
	out := map[string]string{}
	for _, o := range d.Orders {
		text := "gone"
		if o.Shadow != nil {
			text = o.Shadow.Status
		}
		out[o.Order] = text
	}
	return out
}

// db is a connection of the test's own.
func (m *mourned) db() *sql.DB {
	m.Helper()
	db, err := sql.Open("pgx", os.Getenv("DATABASE_URL"))
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() { _ = db.Close() })
	return db
}

// number is the answer to a query for one number.
func (m *mourned) number(query string, args ...any) (n int64) {
	m.Helper()
	if err := m.db().QueryRow(query, args...).Scan(&n); err != nil {
		m.Fatal(err)
	}
	return n
}

// all is a digest of every live table.
func (m *mourned) all() string {
	m.Helper()
	db := m.db()
	var names []string
	rows, err := db.Query(`SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = current_schema() AND c.relkind IN ('r', 'p') AND NOT c.relispartition ORDER BY 1`)
	if err != nil {
		m.Fatal(err)
	}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			m.Fatal(err)
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil {
		m.Fatal(err)
	}
	var out []string
	for _, name := range names {
		var digest string
		if err := db.QueryRow(`SELECT count(*) || ' ' || coalesce(md5(string_agg(t::text, '|' ORDER BY t::text)), '') FROM ` + name + ` t`).Scan(&digest); err != nil {
			m.Fatal(err)
		}
		out = append(out, name+" "+digest)
	}
	return strings.Join(out, "\n")
}

var wouldBe = map[string]string{"amount": "paid", "nothing": "paid", "kind": "failed", "wrong-order": "pending", "right-order": "paid", "dead": "paid"}

func TestTheShadowNamesExactlyTheOrdersThatWereMisreadAndTouchesNothing(t *testing.T) {
	m := newMisread(t)
	before := m.all()
	for _, span := range [][]string{{"--to-earliest"}, {"--whole"}} {
		m.configure(testkit.MisreadLayout)
		same, err := says[differing](t, append([]string{"shadow"}, span...)...)
		if err != nil || len(same.Orders) != 0 {
			t.Errorf("%v under the same rules: %v, %v", span, same.byOrder(), err)
		}
		m.configure(testkit.MendedLayout)
		found, err := says[differing](t, append([]string{"shadow"}, span...)...)
		if !errors.Is(err, errDiffers) || !maps.Equal(found.byOrder(), wouldBe) {
			t.Errorf("%v under the right rules: %v, %v", span, found.byOrder(), err)
		}
		if exitCode(err) != 1 {
			t.Errorf("exit code %d", exitCode(err))
		}
	}
	if one, err := says[differing](t, "shadow", "--to-offset", "3"); !errors.Is(err, errDiffers) || !slices.Equal(slices.Sorted(maps.Keys(one.byOrder())), []string{"dead", "kind", "right-order", "wrong-order"}) {
		t.Errorf("a part of the topic: %v, %v", one.byOrder(), err)
	}
	if after := m.all(); after != before {
		t.Errorf("live tables changed:\n%s\n%s", before, after)
	}
	if n := m.number(`SELECT count(*) FROM pg_namespace WHERE starts_with(nspname, 'sluice_shadow_')`); n != 0 {
		t.Errorf("%d scratch schemas are left", n)
	}
}

func TestWhatAKilledShadowLeftIsDroppedByTheNextAndWhatIsKeptStays(t *testing.T) {
	m := newMisread(t)
	if _, err := m.db().Exec(`CREATE SCHEMA sluice_shadow_1; CREATE TABLE sluice_shadow_1.t (); CREATE SCHEMA sluice_shadow_x`); err != nil {
		t.Fatal(err)
	}
	kept, err := says[struct{ Schema string }](t, "shadow", "--to-earliest", "--keep")
	if err != nil || kept.Schema == "" {
		t.Fatal(kept, err)
	}
	if _, err := says[differing](t, "shadow", "--to-earliest"); err != nil {
		t.Fatal(err)
	}
	if n := m.number(`SELECT count(*) FROM pg_namespace WHERE nspname IN ('sluice_shadow_x', $1)`, kept.Schema); n != 2 {
		t.Error("a schema that was kept, or that is somebody else's, is gone")
	}
	if n := m.number(`SELECT count(*) FROM pg_namespace WHERE starts_with(nspname, 'sluice_shadow_')`); n != 2 {
		t.Errorf("%d scratch schemas are left, want the two", n)
	}
	if n := m.number(`SELECT count(*) FROM ` + kept.Schema + `.orders`); n != 5 { // those that the records lead to
		t.Errorf("the kept schema has %d orders", n)
	}
}

// planned is what a plan says.
type planned struct {
	Digest   string
	Selected string
	Outlook  struct {
		Mended, Revived, Orders, Messages, Corrections int64
	}
	Forecast differing
}

// Somebody always pays while a plan is being read.
func TestWhatComesInMeanwhileMakesNoOtherPlan(t *testing.T) {
	m := newMisread(t)
	m.configure(testkit.MendedLayout)
	plans := func() (digests []string) {
		for _, flags := range [][]string{{"--to-earliest", "--reapply"}} {
			plan, err := says[planned](t, append([]string{"replay"}, flags...)...)
			if err != nil {
				t.Fatal(err)
			}
			digests = append(digests, plan.Digest)
		}
		return digests
	}
	before := plans()
	if _, err := m.store.Register(t.Context(), time.Now(), postgres.Registration{OrderID: "live", Amount: 1000, Currency: "EUR"}); err != nil {
		t.Fatal(err)
	}
	at := time.Now().Truncate(time.Second)
	for range 2 { // and once more
		m.produce(event.Event{Source: "acme", ID: "e_live", Type: "paid", Time: at, TimeRepeats: true, Mode: event.Live, Provider: "declared", Endpoint: "acme",
			Order: "live", Payment: "pay_live", Trust: event.Signed, ContentType: "application/json", ReceivedAt: time.Now(),
			Body: fmt.Appendf(nil, `{"id":"e_live","status":"paid","updated":%d,"ref":"live","payment":"pay_live","total":1000,"currency":"EUR"}`, at.Unix())})
	}
	m.process()
	if after := plans(); !slices.Equal(before, after) {
		t.Errorf("the plans were %v and are %v", before, after)
	}
}

// O44: "the replay command prints what it will do"; it does what its plan said, once.
func TestReapplyDoesWhatItsPlanSaid(t *testing.T) {
	m := newMisread(t)
	m.configure(testkit.MendedLayout)
	before := m.all()
	plan, err := says[planned](t, "replay", "--to-earliest", "--reapply")
	if err != nil || !maps.Equal(plan.Forecast.byOrder(), wouldBe) {
		t.Fatalf("the plan: %v, %v", plan.Forecast.byOrder(), err)
	}
	if m.all() != before {
		t.Error("a plan changes live tables")
	}
	file := filepath.Join(t.TempDir(), "offsets.csv")
	csv, err := sluice(t, "replay", "--to-earliest", "--export")
	if err == nil {
		err = os.WriteFile(file, []byte(csv), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if byFile, err := says[planned](t, "replay", "--from-file", file, "--reapply"); err != nil || !maps.Equal(byFile.Forecast.byOrder(), wouldBe) {
		t.Errorf("by a file of offsets: %v, %v", byFile.Forecast.byOrder(), err)
	}
	if o := plan.Outlook; o.Orders != int64(len(wouldBe)) || o.Messages != plan.Forecast.Versions || o.Corrections == 0 || o.Revived != 1 {
		t.Errorf("the dry run says %+v, the shadow %+v", o, plan.Forecast)
	}
	if _, err := says[planned](t, "replay", "--to-earliest", "--reapply", "--execute", "--reason", "the layout was fixed", "--plan", "0000"); err == nil || m.all() != before {
		t.Errorf("another plan was carried out: %v", err)
	}
	done, err := says[struct{ Mended, Entered, Revived, Versions int64 }](t, "replay", "--to-earliest", "--reapply", "--execute", "--reason", "the layout was fixed", "--plan", plan.Digest)
	if err != nil || done.Mended != 3 || done.Entered != 1 || done.Revived != 1 || done.Versions != plan.Forecast.Versions {
		t.Errorf("it did %+v, %v; the plan said %+v", done, err, plan.Forecast)
	}
	if left, err := says[differing](t, "shadow", "--to-earliest"); err != nil {
		t.Errorf("afterwards there differ %v, %v", left.byOrder(), err)
	}
	if left, err := says[differing](t, "shadow", "--whole"); err != nil {
		t.Errorf("afterwards, rebuilt, there differ %v, %v", left.byOrder(), err)
	}
	if a, err := says[struct{ Unaccounted int64 }](t, "audit"); err != nil || a.Unaccounted != 0 {
		t.Errorf("the books: %+v, %v", a, err)
	}
	if n := m.number(`SELECT count(*) FROM audit_log WHERE who = 'anna' AND reason = 'the layout was fixed' AND action IN ('replay.reapply', 'replay.reapply.done')`); n != 2 {
		t.Errorf("%d lines in the audit log, want 2", n)
	}
	if next, err := says[planned](t, "replay", "--to-earliest", "--reapply"); err != nil || len(next.Forecast.Orders) != 0 || next.Forecast.Versions != 0 {
		t.Errorf("once more it would change %v, %v", next.Forecast.byOrder(), err)
	}
}

// The dry run and the scratch schema tell of the same orders, whatever verdicts are asked
// for, and of a copy whose first record lies before the span.
func TestBothHalvesOfAPlanTellOfTheSameOrders(t *testing.T) {
	m := newMisread(t)
	m.produce(m.misread["e_amount"])
	m.process()
	m.configure(testkit.MendedLayout)
	for flags, want := range map[string]map[string]string{
		"--to-earliest --verdict held":      {"amount": "paid"},
		"--to-earliest --verdict dead":      {"dead": "paid"},
		"--to-earliest --verdict no_change": {"nothing": "paid"},
		"--to-earliest --verdict applied":   {"kind": "failed", "wrong-order": "pending", "right-order": "paid"},
		"--to-earliest --verdict held,dead": {"amount": "paid", "dead": "paid"},
		"--to-offset 6":                     {"amount": "paid"},
	} {
		plan, err := says[planned](t, append([]string{"replay", "--reapply"}, strings.Fields(flags)...)...)
		if err != nil || !maps.Equal(plan.Forecast.byOrder(), want) || plan.Outlook.Orders != int64(len(want)) || plan.Outlook.Messages != plan.Forecast.Versions {
			t.Errorf("%s: %v, of %+v, %v", flags, plan.Forecast.byOrder(), plan.Outlook, err)
		}
	}
	m.says("replay --reapply --to-earliest --verdict held,dead", `say what they said then, or were not asked for +5`, `orders that would change +2`)
}

func TestSelectionsAreReadAnewWhereverTheirBytesAre(t *testing.T) {
	m := newMisread(t)
	m.configure(testkit.MendedLayout)
	do := func(args ...string) {
		t.Helper()
		args = append([]string{"replay"}, args...)
		plan, err := says[planned](t, args...)
		if err != nil {
			t.Fatal(args, err)
		}
		if _, err := says[planned](t, append(args, "--execute", "--reason", "fixed", "--plan", plan.Digest)...); err != nil {
			t.Fatal(args, err)
		}
	}
	is := func(id, want string) {
		t.Helper()
		if got, err := m.store.Story(t.Context(), id); err != nil || got.Status.String() != want {
			t.Errorf("order %s is %v, want %s; %v", id, got.Status, want, err)
		}
	}
	do("--event", "e_nothing", "--source", "acme", "--reapply")
	is("nothing", "paid")
	do("--order", "kind", "--reapply")
	is("kind", "failed")
	do("--provider", "declared", "--to-offset", "4", "--reapply", "--verdict", "applied")
	is("right-order", "paid")
	is("dead", "pending")

	// The topic loses everything; what is held and what is dead have their bytes in the database.
	var all kadm.Offsets
	all.AddOffset(m.kafka.Topic(kafka.Raw), 0, 6, -1)
	if _, err := m.admin.DeleteRecords(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	is("amount", "pending")
	do("--held", "--of-reason", "amount_mismatch", "--reapply")
	is("amount", "paid")
	do("--dead-letters", "--endpoint", "acme", "--reapply")
	is("dead", "paid")
	gone, err := says[planned](t, "replay", "--order", "right", "--reapply")
	if err != nil || gone.Forecast.Gone != 1 {
		t.Errorf("of bytes that are gone: %+v, %v", gone.Forecast, err)
	}
	if a, err := says[struct{ Unaccounted int64 }](t, "audit"); err != nil || a.Unaccounted != 0 {
		t.Errorf("the books: %+v, %v", a, err)
	}
}

// Without --reapply only what nobody has taken over is: known events are duplicates.
func TestAPlainSelectionTakesOverWhatNobodyHas(t *testing.T) {
	m := newMisread(t)
	m.configure(testkit.MendedLayout)
	type plain struct {
		Digest  string
		Outlook struct{ Records, Duplicates, New, Revived, Orders int64 }
		Revived int64
	}
	before := m.all()
	known, err := says[plain](t, "replay", "--order", "amount")
	if err != nil || known.Outlook.Records != 1 || known.Outlook.Duplicates != 1 || known.Outlook.Orders != 0 {
		t.Errorf("a known event: %+v, %v", known, err)
	}
	if _, err := says[plain](t, "replay", "--order", "amount", "--execute", "--reason", "looking", "--plan", known.Digest); err != nil {
		t.Error(err)
	}
	if out, err := sluice(t, "replay", "--order", "amount"); err != nil || !strings.Contains(out, "--reapply reads them anew") {
		t.Errorf("a known event: %v\n%s", err, out)
	}
	if out, err := sluice(t, "replay", "--dead-letters", "--endpoint", "nobody"); err != nil || !strings.Contains(out, "nothing to do") || strings.Contains(out, "--execute") {
		t.Errorf("a selection of nothing: %v\n%s", err, out)
	}
	if _, err := sluice(t, "replay", "--event", "evt_nobody"); exitCode(err) != 1 || !strings.Contains(err.Error(), "evt_nobody") {
		t.Errorf("an event that nobody knows: %v", err)
	}
	letters, err := says[plain](t, "replay", "--dead-letters")
	if err != nil || letters.Outlook.Records != 1 {
		t.Errorf("a dead letter that can be read: %+v, %v", letters, err)
	}
	if _, err := m.db().Exec(`DELETE FROM audit_log`); err != nil {
		t.Fatal(err)
	}
	if after := m.all(); after != before {
		t.Errorf("a plan, or known events, change rows:\n%s\n%s", before, after)
	}
	done, err := says[plain](t, "replay", "--dead-letters", "--execute", "--reason", "the layout was mended", "--plan", letters.Digest)
	if err != nil || done.Revived != 1 {
		t.Errorf("it did %+v, %v", done, err)
	}
	if s, err := m.store.Story(t.Context(), "dead"); err != nil || s.Status.String() != "paid" {
		t.Errorf("the order is %v, %v", s.Status, err)
	}
	if a, err := says[struct{ Unaccounted int64 }](t, "audit"); err != nil || a.Unaccounted != 0 {
		t.Errorf("the books: %+v, %v", a, err)
	}
}

func TestSelectionsThatMakeNoSenseAreWrongUse(t *testing.T) {
	for _, args := range []string{
		"--source acme", "--order A --held", "--provider acme", "--reapply", "--endpoint e", "--of-reason body", "--held --verdict held", "--order A --to-earliest",
		"--held --of-reason nonsense", "--order A --reapply --verdict paid", "--order A --status",
		"--order A --export", "--held --skip", "--dead-letters --partitions 0", "--reapply --to-earliest --beyond-window", "--order A --no-dry-run", "--status --partitions 0",
		"--to-earliest --verdict held",
	} {
		_, err := says[planned](t, append([]string{"replay"}, strings.Fields(args)...)...)
		if exitCode(err) != 2 {
			t.Errorf("%s: %v", args, err)
		}
	}
	for _, args := range []string{"", "--to-earliest --whole", "--whole --provider acme", "--to-datetime yesterday"} {
		_, err := says[differing](t, append([]string{"shadow"}, strings.Fields(args)...)...)
		if exitCode(err) != 2 {
			t.Errorf("shadow %s: %v", args, err)
		}
	}
}
