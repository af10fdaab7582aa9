package postgres_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/pkg/archive"
	"sluice/pkg/postgres"
)

// bodies puts n rows into the journal's day of at, and returns the day's partition.
func (k *kept) bodies(n int, at time.Time) (partition string) {
	k.Helper()
	if _, err := k.store.EnsurePartitions(k.Context(), at); err != nil {
		k.Fatal(err)
	}
	k.exec(`INSERT INTO raw_bodies (event_hash, kept_at, record_offset, partition, record_headers, body)
		SELECT gen_random_uuid(), $1::timestamptz, i, 0, convert_to('[{"n":"\\"}]', 'UTF8'), decode(repeat('00ff5c0a22', i % 50), 'hex') FROM generate_series(1, $2::int) i`, at, n)
	return "raw_bodies_" + at.Format("2006_01_02")
}

// restored is how many rows of a file differ from those that were kept aside.
func (k *kept) restored(d archive.Dir, m archive.Manifest, aside string) int64 {
	k.Helper()
	var lines bytes.Buffer
	if err := d.Cat(k.Context(), m, &lines); err != nil {
		k.Fatal(err)
	}
	k.exec(`CREATE TABLE IF NOT EXISTS restored (line text)`)
	k.exec(`TRUNCATE restored`)
	k.exec(`INSERT INTO restored SELECT * FROM unnest($1::text[])`, strings.Split(strings.TrimSuffix(lines.String(), "\n"), "\n"))
	return k.number(fmt.Sprintf(`SELECT count(*) FROM (
		(SELECT (json_populate_record(NULL::%[1]s, line::json)).* FROM restored EXCEPT SELECT * FROM %[1]s)
		UNION ALL (SELECT * FROM %[1]s EXCEPT SELECT (json_populate_record(NULL::%[1]s, line::json)).* FROM restored)) d`, aside))
}

func TestWhatIsDroppedWasArchivedAndCanBeRestored(t *testing.T) {
	k := newKept(t)
	now := time.Now().UTC()
	dir := archive.Dir(t.TempDir())
	keep := postgres.Retention{Bodies: 24 * time.Hour, Transitions: 24 * time.Hour, Archive: dir}
	day := k.bodies(2500, now)
	k.exec(`CREATE TABLE bodies_aside AS SELECT * FROM raw_bodies`)
	k.exec(`INSERT INTO order_transitions (id, shard, order_no, order_id, version, from_status, to_status, amount, currency, paid, refunded, cause_source, cause_event_id, occurred_at, changed_at)
		SELECT n, n % 2, n, n::text, 1, 0, 1, 9007199254740993, 'EUR', 0, 0, 's', E'"\\\n', 0, $1::timestamptz FROM generate_series(1, 640) n`, now)
	k.exec(`CREATE TABLE transitions_aside AS SELECT * FROM order_transitions`)
	k.exec(`UPDATE relay_shards r SET cursor = coalesce((SELECT max(id) FROM order_transitions t WHERE t.shard = r.shard), 0)`)
	k.exec(`SELECT setval('order_transitions_id_seq', 250000000)`)
	later := now.AddDate(0, 0, 8)
	if _, err := k.store.EnsurePartitions(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	d := k.drop(later, keep)
	if !slices.Contains(d.Partitions, day) || !slices.Contains(d.Partitions, "order_transitions_0") || len(d.Unarchived) != 0 || d.Later {
		t.Errorf("dropped %+v", d)
	}
	all, strays, err := dir.List()
	if err != nil || len(all) != 2 || len(strays) != 0 { // days without bodies have no file
		t.Fatalf("archived %+v, strays %v, %v", all, strays, err)
	}
	for i, aside := range []string{"transitions_aside", "bodies_aside"} {
		if err := dir.Verify(t.Context(), all[i], nil); err != nil {
			t.Error(err)
		}
		if n := k.restored(dir, all[i], aside); n != 0 {
			t.Errorf("%d rows of %s are not what they were", n, all[i].Name)
		}
	}
	if m := all[1]; m.Rows != 2500 || !strings.Contains(m.Bounds, "FROM") || len(m.Column) != 6 || m.Column[5].Type != "bytea" || m.Origin == "" {
		t.Errorf("the manifest says %+v", m)
	}
	if d := k.drop(later, keep); len(d.Partitions) != 0 {
		t.Errorf("dropped %+v again", d)
	}
}

func TestAPartitionThatCannotBeArchivedStaysInUse(t *testing.T) {
	k := newKept(t)
	now := time.Now().UTC()
	gone := archive.Dir(filepath.Join(t.TempDir(), "unmounted"))
	keep := postgres.Retention{Archive: gone}
	day := k.bodies(10, now)
	k.take("old", now.AddDate(0, 0, -80))
	later := now.AddDate(0, 0, 62)
	if _, err := k.store.EnsurePartitions(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	d := k.drop(later, keep)
	if d.Unarchived[day] == nil || d.Later || !slices.Contains(k.partitions("raw_bodies"), day) || k.number(`SELECT count(*) FROM raw_bodies`) != 10 {
		t.Errorf("dropped %+v", d)
	}
	if !slices.ContainsFunc(d.Partitions, func(p string) bool { return strings.HasPrefix(p, "processed_events") }) {
		t.Errorf("what needs no archive stays too: %+v", d)
	}
	if err := os.Mkdir(string(gone), 0o700); err != nil {
		t.Fatal(err)
	}
	if d := k.drop(later, keep); len(d.Unarchived) != 0 || !slices.Contains(d.Partitions, day) {
		t.Errorf("dropped %+v", d)
	}
}

// Every state in which a program that died, or another version, can leave a partition
// and its archive: afterwards the partition is gone and every row is in a sound file.
func TestWhateverACrashLeftEveryRowIsArchivedBeforeItIsDropped(t *testing.T) {
	for name, left := range map[string]func(k *kept, dir archive.Dir, day string, m archive.Manifest){
		"archived, and begun to detach": func(*kept, archive.Dir, string, archive.Manifest) {},
		"archived, and still in use": func(k *kept, _ archive.Dir, day string, m archive.Manifest) {
			k.detach(day)
			k.exec(`COMMENT ON TABLE ` + day + ` IS NULL`)
			k.exec(`ALTER TABLE raw_bodies ATTACH PARTITION ` + day + ` ` + m.Bounds)
			k.exec(`INSERT INTO raw_bodies SELECT event_hash, kept_at, 777, partition, record_headers, body FROM ` + day + ` LIMIT 1`)
		},
		"archived and detached":         func(k *kept, _ archive.Dir, day string, _ archive.Manifest) { k.detach(day) },
		"detached, and never archived":  func(k *kept, dir archive.Dir, day string, m archive.Manifest) { k.detach(day); k.remove(dir, m) },
		"archived, and the file is bad": func(k *kept, dir archive.Dir, _ string, m archive.Manifest) { k.spoil(dir, m) },
		"detached, and the file is bad": func(k *kept, dir archive.Dir, day string, m archive.Manifest) { k.detach(day); k.spoil(dir, m) },
		"archived, and a row came late": func(k *kept, _ archive.Dir, day string, _ archive.Manifest) {
			k.exec(`INSERT INTO ` + day + ` SELECT event_hash, kept_at, 777, partition, record_headers, body FROM ` + day + ` LIMIT 1`)
		},
		"archived, without its manifest": func(k *kept, dir archive.Dir, _ string, m archive.Manifest) {
			if err := os.Remove(filepath.Join(string(dir), strings.TrimSuffix(m.File, ".jsonl.zst")+".json")); err != nil {
				k.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKept(t)
			now := time.Now().UTC()
			dir := archive.Dir(t.TempDir())
			day := k.bodies(300, now)
			later := now.AddDate(0, 0, 5)
			// A reader in the way lets it get as far as the archive.
			reading, err := k.connect().Begin(t.Context())
			if err == nil {
				_, err = reading.Exec(t.Context(), `SELECT count(*) FROM raw_bodies`)
			}
			if err != nil {
				t.Fatal(err)
			}
			if d := k.drop(later, postgres.Retention{Archive: dir}); !d.Later {
				t.Errorf("dropped %+v beside a reader", d)
			}
			_ = reading.Rollback(t.Context())
			all, _, err := dir.List()
			if err != nil || len(all) != 1 {
				t.Fatalf("archived %v, %v", all, err)
			}
			left(k, dir, day, all[0])
			k.exec(`CREATE TABLE aside AS SELECT * FROM ` + day)
			for d := k.drop(later, postgres.Retention{Archive: dir}); d.Later || len(d.Unarchived) > 0; d = k.drop(later, postgres.Retention{Archive: dir}) {
			}
			if n := k.number(`SELECT count(*) FROM pg_class WHERE relname = $1`, day); n != 0 {
				t.Errorf("%s is still there", day)
			}
			all, _, err = dir.List()
			if err != nil {
				t.Fatal(err)
			}
			whole := slices.ContainsFunc(all, func(m archive.Manifest) bool {
				return m.Rows == k.number(`SELECT count(*) FROM aside`) && dir.Verify(t.Context(), m, nil) == nil && k.restored(dir, m, "aside") == 0
			})
			if !whole {
				t.Errorf("no sound file has every row: %+v", all)
			}
		})
	}
}

// detach takes a day out of the journal as DropBehind does, and leaves it there.
func (k *kept) detach(day string) {
	k.Helper()
	k.exec(`COMMENT ON TABLE ` + day + ` IS 'sluice: detached, to be dropped'`)
	if k.number(`SELECT count(*) FROM pg_inherits WHERE inhrelid = $1::text::regclass AND inhdetachpending`, day) == 1 {
		k.exec(`ALTER TABLE raw_bodies DETACH PARTITION ` + day + ` FINALIZE`) //nolint:misspell // SQL
		return
	}
	k.exec(`ALTER TABLE raw_bodies DETACH PARTITION ` + day + ` CONCURRENTLY`)
}

func (k *kept) remove(dir archive.Dir, m archive.Manifest) {
	k.Helper()
	for _, name := range []string{m.File, strings.TrimSuffix(m.File, ".jsonl.zst") + ".json"} {
		if err := os.Remove(filepath.Join(string(dir), name)); err != nil {
			k.Fatal(err)
		}
	}
}

func (k *kept) spoil(dir archive.Dir, m archive.Manifest) {
	k.Helper()
	if err := os.Truncate(filepath.Join(string(dir), m.File), m.FileBytes/2); err != nil {
		k.Fatal(err)
	}
}

// killedArchiver is the environment of the program that the next test kills: the
// directory it archives into.
const killedArchiver = "SLUICE_TEST_KILLED_ARCHIVER"

func TestAProgramThatIsKilledWhileItArchivesLosesNothing(t *testing.T) {
	keep := postgres.Retention{Archive: archive.Dir(os.Getenv(killedArchiver))}
	now := time.Now().UTC()
	later := now.AddDate(0, 0, 5)
	if keep.Archive != "" { // it is that program
		s, err := postgres.Open(t.Context(), postgres.Config{URL: os.Getenv("SLUICE_TEST_KILLED_DATABASE")}, 4)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for {
			d, err := s.DropBehind(t.Context(), later, keep)
			if err != nil || len(d.Unarchived) > 0 {
				t.Fatalf("%+v, %v", d, err)
			}
			if slices.Contains(d.Partitions, os.Getenv("SLUICE_TEST_KILLED_PARTITION")) {
				return
			}
		}
	}
	k := newKept(t)
	keep.Archive = archive.Dir(t.TempDir())
	day := k.bodies(20_000, now)
	k.exec(`CREATE TABLE aside AS SELECT * FROM ` + day)
	for n := 0; ; n++ {
		c := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
		c.Env = append(os.Environ(), killedArchiver+"="+string(keep.Archive), "SLUICE_TEST_KILLED_DATABASE="+k.cfg.URL, "SLUICE_TEST_KILLED_PARTITION="+day)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		// Each time a little later: after the begin of the file at first, after its end at last.
		k.until(func() bool {
			entries, err := os.ReadDir(string(keep.Archive))
			return err != nil || len(entries) > 0 || k.number(`SELECT count(*) FROM pg_class WHERE relname = $1`, day) == 0
		})
		select {
		case <-time.After(time.Duration(n) * 30 * time.Millisecond):
			_ = c.Process.Kill()
			t.Logf("killed: %v", <-ended)
		case err := <-ended:
			if err != nil {
				t.Fatalf("the archiver ended with %v", err)
			}
		}
		if k.number(`SELECT count(*) FROM pg_class WHERE relname = $1`, day) == 0 {
			if n == 0 {
				t.Error("it was never killed before it was done")
			}
			break
		}
		if n == 200 {
			t.Fatal("it comes to no end")
		}
	}
	all, _, err := keep.Archive.List()
	if err != nil || len(all) != 1 {
		t.Fatalf("archived %+v, %v", all, err)
	}
	if err := keep.Archive.Verify(t.Context(), all[0], nil); err != nil {
		t.Error(err)
	}
	if n := k.restored(keep.Archive, all[0], "aside"); n != 0 || all[0].Rows != 20_000 {
		t.Errorf("%d of %d rows are not what they were", n, all[0].Rows)
	}
}

func (k *kept) until(done func() bool) {
	k.Helper()
	deadline := time.After(30 * time.Second)
	for tick := time.NewTicker(2 * time.Millisecond); !done(); {
		select {
		case <-deadline:
			k.Fatal("waited in vain")
		case <-tick.C:
		}
	}
}
