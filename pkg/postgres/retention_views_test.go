package postgres_test

import (
	"strings"
	"testing"
	"time"

	"sluice/pkg/postgres"
)

func TestPartitionsAreMadeMonthsBeforeTheyAreNeededAndWhatIsMissingIsNamed(t *testing.T) {
	k := newKept(t)
	now := time.Now().UTC()
	// A clock that moves on by a day for a year: whatever comes within the next two months
	// has its place, always.
	for day := range 365 {
		at := now.AddDate(0, 0, day)
		if day > 0 && day%20 != 0 { // a processor that looks after them rarely
			if missing, err := k.store.MissingPartitions(t.Context(), at); err != nil || strings.Contains(strings.Join(missing, " "), "processed_events_"+at.Format("2006_01")) {
				t.Fatalf("on day %d the present month has no partition: %v, %v", day, missing, err)
			}
			continue
		}
		w, err := k.store.EnsurePartitions(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		if ahead := w.Before.Sub(at); ahead < 59*24*time.Hour || !w.Contains(at.AddDate(0, 1, 27)) {
			t.Fatalf("on day %d events have a place for %s only", day, ahead)
		}
		if missing, err := k.store.MissingPartitions(t.Context(), at); err != nil || len(missing) > 0 {
			t.Fatalf("on day %d there are no %v, %v", day, missing, err)
		}
	}
	k.take("in the last month", now.AddDate(0, 0, 364+40))
	k.exec(`DROP TABLE raw_bodies_` + now.AddDate(0, 0, 2).Format("2006_01_02"))
	if missing, err := k.store.MissingPartitions(t.Context(), now); err != nil || len(missing) != 1 || missing[0] != "raw_bodies_"+now.AddDate(0, 0, 2).Format("2006_01_02") {
		t.Errorf("missing %v, %v", missing, err)
	}
}

func TestWhatIsOnDiskAndGoesNextIsTold(t *testing.T) {
	k := newKept(t)
	now := time.Now().UTC()
	old := now.AddDate(0, 0, -80).Truncate(time.Millisecond)
	k.take("old", old)
	k.take("undated", time.Time{})
	k.exec(`INSERT INTO raw_bodies (event_hash, kept_at, record_offset, partition, record_headers, body) VALUES (gen_random_uuid(), $1, 1, 0, '[]', '')`, now)
	k.exec(`INSERT INTO order_transitions (id, shard, order_no, order_id, version, from_status, to_status, amount, currency, paid, refunded, cause_source, cause_event_id, occurred_at, changed_at)
		SELECT n, n % 2, n, n::text, 1, 0, 1, 1, 'EUR', 0, 0, 's', 'e', 0, $1::timestamptz + n * interval '1 s' FROM generate_series(1, 10) n`, old)
	tables, err := k.store.KeptTables(t.Context(), postgres.Retention{Bodies: 48 * time.Hour, Transitions: 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]postgres.KeptTable{}
	for _, table := range tables {
		if got[table.Table] = table; table.Bytes < 8192 || len(table.Leaving) != 0 {
			t.Errorf("%+v", table)
		}
	}
	month := func(at time.Time, n int) time.Time {
		return time.Date(at.Year(), at.Month()+time.Month(n), 1, 0, 0, 0, 0, time.UTC)
	}
	first := month(now.AddDate(0, 0, -90), 0)
	p := got["processed_events"]
	if p.Oldest == nil || !p.Oldest.Equal(old) || p.NextDropped != "processed_events_"+first.Format("2006_01") ||
		!p.DropAt.Equal(month(first, 1).AddDate(0, 0, 91)) || !p.AheadUntil.Equal(month(now, 3)) {
		t.Errorf("%+v", p)
	}
	today := now.Truncate(24 * time.Hour)
	if b := got["raw_bodies"]; b.Oldest == nil || b.Oldest.Sub(now).Abs() > time.Millisecond || !b.DropAt.Equal(today.AddDate(0, 0, 4)) || !b.AheadUntil.Equal(today.AddDate(0, 0, 4)) || b.Partitions != 4 {
		t.Errorf("%+v", b)
	}
	if o := got["order_transitions"]; o.Oldest == nil || o.Oldest.Sub(old) > 2*time.Second || o.NextDropped != "order_transitions_0" || o.DropAt != nil || o.LastNumber != 400_000_000 {
		t.Errorf("%+v", o)
	}
	if d := got["dead_letters"]; d.Oldest != nil || d.Partitions != 0 {
		t.Errorf("%+v", d)
	}
}
