package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/integration/harness"
	"sluice/pkg/kafka"
)

// sluice runs a command of the program to its end.
func sluice(d *harness.Deployment, args ...string) (output string, code int) {
	d.T.Helper()
	p := harness.Start(d.T, d.Env(), args...)
	code = p.Wait(90 * time.Second)
	return p.Output(), code
}

// replayPlan asks for a plan and returns its digest and records.
func replayPlan(d *harness.Deployment, target ...string) (digest string, records int64) {
	d.T.Helper()
	out, code := sluice(d, append([]string{"replay", "--json"}, target...)...)
	var plan struct {
		Digest  string
		Records int64
	}
	if err := json.Unmarshal([]byte(out), &plan); err != nil || code != 0 || plan.Digest == "" {
		d.T.Fatalf("plan of %v: %d, %v\n%s", target, code, err, out)
	}
	return plan.Digest, plan.Records
}

// agreed is the command that carries a plan out.
func agreed(d *harness.Deployment, target ...string) []string {
	d.T.Helper()
	digest, _ := replayPlan(d, target...)
	return append([]string{"replay", "--execute", "--plan", digest, "--reason", "ticket 4711", "--as", "ana"}, target...)
}

// replayed waits until a replay has come to a state.
func replayed(d *harness.Deployment, state string) {
	d.T.Helper()
	harness.Eventually(d.T, "the last replay is "+state, 60*time.Second, func() error {
		if d.Count("SELECT count(*) FROM replays WHERE id = (SELECT max(id) FROM replays) AND state = $1", state) != 1 {
			return fmt.Errorf("%d replays are open, of %d", d.Count("SELECT count(*) FROM replays WHERE ended_at IS NULL"), d.Count("SELECT count(*) FROM replays"))
		}
		return nil
	})
}

// adds holds the books against Kafka with the command for it.
func adds(d *harness.Deployment) {
	d.T.Helper()
	if out, code := sluice(d, "audit"); code != 0 {
		d.T.Errorf("sluice audit ended with %d\n%s", code, out)
	}
}

// O44, with the command: a live group is paused, reset and resumed, while live traffic
// goes on, and nothing is published or done a second time.
func TestOneCommandReplaysALiveGroupAndNothingHappensTwice(t *testing.T) { // O44
	d, o := harness.New(t, 3), newOutside(t)
	d.Declares = o.declare("")
	ingress, merchant := d.Start("ingress"), d.Start("merchant")
	d.Start("processor")
	d.Start("relay")
	const orders = 60
	paid := int64(0)
	for ; paid < orders; paid++ {
		pay(d, ingress, merchant, fmt.Sprintf("P-%d", paid))
	}
	waitDone(d, orders)
	replay := func(what string, target ...string) {
		var more atomic.Int64
		stop, stopped := make(chan struct{}), make(chan struct{})
		first := paid
		go func() { // live traffic
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				default:
					pay(d, ingress, merchant, fmt.Sprintf("P-%d", first+more.Load()))
					more.Add(1)
				}
			}
		}()
		args := agreed(d, target...)
		out, code := sluice(d, args...)
		close(stop)
		<-stopped
		paid += more.Load()
		if code != 0 || !strings.Contains(out, "done") {
			t.Fatalf("%s: %d\n%s", what, code, out)
		}
		replayed(d, "done")
		waitDone(d, paid)
		if n := d.Count("SELECT count(*) FROM order_transitions"); n != 2*paid {
			t.Errorf("%s: %d transitions, want %d", what, n, 2*paid)
		}
	}
	replay("from the first offset", "--to-earliest")
	replay("an hour", "--from-file", offsetsFile(d, "--by-duration", "PT1H"))
	d.Exec(`DELETE FROM processed_events WHERE get_byte(uuid_send(key), 15) % 2 = 0`)
	replay("with half of the ledger gone", "--to-earliest")
	o.same()
	d.Sound(nil)
	adds(d)
	if n := d.Count("SELECT count(*) FROM audit_log WHERE action = 'replay.start' AND who = 'ana' AND reason = 'ticket 4711'"); n != 3 {
		t.Errorf("%d audit rows of three replays", n)
	}
	if out, code := sluice(d, "replay", "--status"); code != 0 || strings.Count(out, "done") < 3 {
		t.Errorf("status: %d\n%s", code, out)
	}
}

// offsetsFile has the command export where a target leads.
func offsetsFile(d *harness.Deployment, target ...string) string {
	d.T.Helper()
	out, code := sluice(d, append([]string{"replay", "--export"}, target...)...)
	if code != 0 {
		d.T.Fatalf("export: %d\n%s", code, out)
	}
	file := filepath.Join(d.T.TempDir(), "offsets.csv")
	if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
		d.T.Fatal(err)
	}
	return file
}

// A dry run's answers are part of what was agreed on: what happens to other orders is
// not, what happens to these is.
func TestAReplayWhoseRecordsWouldDoSomethingElseNowIsRefused(t *testing.T) {
	d := harness.New(t, 1)
	ingress, merchant := d.Start("ingress"), d.Start("merchant")
	processor := d.Start("processor")
	pay(d, ingress, merchant, "A")
	d.Becomes("A", "paid")
	d.BooksBalance()
	for _, table := range []string{"processed_events", "order_events WHERE event_id = 'evt_A'"} { // as if it had never been
		d.Exec("DELETE FROM " + table)
	}
	args := agreed(d, "--to-earliest")
	pay(d, ingress, merchant, "B")
	d.Becomes("B", "paid")
	again, _ := replayPlan(d, "--to-earliest")
	if args[3] != again {
		t.Errorf("live traffic made another plan: %s and %s", args[3], again)
	}
	d.Exec("DELETE FROM processed_events")
	d.Exec("DELETE FROM order_events WHERE event_id = 'evt_B'")
	out, code := sluice(d, args...)
	if code != 1 || !strings.Contains(out, "nothing was done: this is another plan") {
		t.Errorf("two events would be taken over, one was agreed on: %d\n%s", code, out)
	}
	if n := d.Count("SELECT count(*) FROM replays"); n != 0 {
		t.Errorf("%d replays were asked for", n)
	}
	if code := processor.Stop(); code != 0 {
		t.Fatal(code)
	}
}

// Whenever the tool is killed, either nothing was changed and processors go on by
// themselves, or the replay goes on without it.
func TestAReplaySurvivesItsToolAndItsProcessor(t *testing.T) {
	d := harness.New(t, 2)
	ingress, merchant := d.Start("ingress"), d.Start("merchant")
	processor := d.Start("processor")
	const orders = 20
	for i := range orders {
		pay(d, ingress, merchant, fmt.Sprintf("P-%d", i))
	}
	d.Becomes("P-19", "paid")
	live := func(id string) {
		t.Helper()
		pay(d, ingress, merchant, id)
		d.Becomes(id, "paid")
	}
	args := agreed(d, "--to-earliest")

	processor.Pause() // it cannot report
	tool := harness.Start(t, d.Env(), args...)
	replayed(d, "pausing")
	tool.Kill()
	processor.Resume()
	live("after a tool that died before the report")
	replayed(d, "abandoned")

	processor.Pause()
	out, code := sluice(d, append(args, "--wait", "1s")...)
	processor.Resume()
	if code != 1 || !strings.Contains(out, "nothing was done") || !strings.Contains(out, "partition 0 (sluice-processor at") {
		t.Errorf("a processor that hangs is not named: %d\n%s", code, out)
	}
	live("after a processor that hung")

	begun := func() (*harness.Process, *harness.Locker) { // paused and reported, the start is held up
		t.Helper()
		args := agreed(d, "--to-earliest")
		processor.Pause()
		tool := harness.Start(t, d.Env(), args...)
		replayed(d, "pausing")
		lock := harness.Lock(t, d, "SELECT 1 FROM replays WHERE ended_at IS NULL FOR UPDATE")
		processor.Resume()
		harness.Eventually(t, "the tool waits to start", 20*time.Second, func() error {
			if n := d.Count("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%StartReplay%'"); n != 1 {
				return fmt.Errorf("%d wait", n)
			}
			return nil
		})
		return tool, lock
	}
	tool, lock := begun()
	tool.Kill()
	d.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%StartReplay%' AND pid <> pg_backend_pid()")
	lock.Release()
	live("after a tool that died before the start")
	replayed(d, "abandoned")

	tool, lock = begun()
	processor.Kill()
	lock.Release()
	replayed(d, "running")
	processor = d.Start("processor")
	if code := tool.Wait(90 * time.Second); code != 0 {
		t.Errorf("the processor died in the pause: %d\n%s", code, tool.Output())
	}
	replayed(d, "done")
	live("after a processor that died in the pause")

	// Killed while it runs: an order that is locked keeps the lane from ending.
	d.Exec("DELETE FROM processed_events")
	args = agreed(d, "--to-earliest", "--no-dry-run")
	held := harness.Lock(t, d, "SELECT 1 FROM orders WHERE order_id = 'P-0' FOR UPDATE")
	tool = harness.Start(t, d.Env(), args...)
	replayed(d, "running")
	tool.Kill()
	held.Release()
	replayed(d, "done")
	if n, want := d.Count("SELECT count(*) FROM order_transitions"), 2*int64(len(d.Records(kafka.Raw))); n != want {
		t.Errorf("%d transitions, want %d", n, want)
	}
	adds(d)
}

func TestWhatAReplaySkipsIsWrittenOffAndTheBooksAddUp(t *testing.T) {
	d := harness.New(t, 1)
	ingress, merchant := d.Start("ingress"), d.Start("merchant")
	processor := d.Start("processor")
	pay(d, ingress, merchant, "A")
	d.Becomes("A", "paid")
	if code := processor.Stop(); code != 0 {
		t.Fatal(code)
	}
	for i := range 5 {
		pay(d, ingress, merchant, fmt.Sprintf("lost-%d", i))
	}
	if out, code := sluice(d, "replay", "--to-latest"); code != 1 || !strings.Contains(out, "5 records ahead were never applied") {
		t.Fatalf("without --skip: %d\n%s", code, out)
	}
	if out, code := sluice(d, agreed(d, "--to-latest", "--skip")...); code != 0 {
		t.Fatalf("skip: %d\n%s", code, out)
	}
	adds(d)
	d.Start("processor")
	pay(d, ingress, merchant, "B")
	d.Becomes("B", "paid")
	if status, _ := d.Order("lost-0"); status != "pending" {
		t.Errorf("what was skipped is %s", status)
	}
	adds(d)
	if out, code := sluice(d, agreed(d, "--to-earliest")...); code != 0 { // the records are still there
		t.Fatalf("and read after all: %d\n%s", code, out)
	}
	replayed(d, "done")
	d.Becomes("lost-0", "paid")
	adds(d)
}

// TestThePageAboutReplaysDoesWhatItSays runs docs/replay.md from top to bottom.
func TestThePageAboutReplaysDoesWhatItSays(t *testing.T) {
	found := chapters(t, "replay.md")
	b := newRunbook(t, nil)
	chapter := func(title string, commands int) {
		t.Helper()
		if b.commands = found[title]; len(b.commands) != commands {
			t.Fatalf("the chapter %q has %d commands, want %d", title, len(b.commands), commands)
		}
		delete(found, title)
	}
	ingress, merchant := b.Start("ingress"), b.Start("merchant")
	processor := b.Start("processor")
	for i := range 20 {
		pay(b.Deployment, ingress, merchant, fmt.Sprintf("P-%d", i))
	}
	b.BooksBalance()

	chapter("Look first", 2)
	samples := regexp.MustCompile("(?ms)^```text\n(.*?)^```$").FindAllStringSubmatch(read(t, filepath.Join(harness.Root(), "docs", "replay.md")), -1)
	looks := func(said, sample string) {
		t.Helper()
		if !strings.Contains(shape(said), shape(sample)) {
			t.Errorf("the command says\n%s\nthe page shows\n%s", said, sample)
		}
	}
	looks(b.types(), samples[0][1])
	b.types(`"records": \d+`)
	chapter("Do it", 1)
	looks(b.types(`Replay 1  done  by anna: ticket 4711`, `read again +20 +20`), samples[1][1])
	chapter("While it runs", 1)
	b.types(`Replay 1  done`)
	chapter("After a fixed bug: read anew", 2)
	b.types(`none of 20 orders differs`)
	b.types(`unchanged +20`)
	chapter("Offsets in a file", 1)
	b.types(`--from-file offsets.csv`)
	if code := processor.Stop(); code != 0 {
		t.Fatal(code)
	}
	for i := range 3 {
		pay(b.Deployment, ingress, merchant, fmt.Sprintf("S-%d", i))
	}
	chapter("Going ahead", 1)
	b.types(`Replay 2  done`, `3 accepted records .*written off`, `the books add up`)
	for title := range found {
		t.Errorf("nobody tries the commands of the chapter %q", title)
	}
}

// shape is a text without what differs from run to run.
func shape(text string) string {
	text = regexp.MustCompile(`([Pp]lan) [0-9a-f]{10}`).ReplaceAllString(text, "$1 D")
	text = regexp.MustCompile(`\d+`).ReplaceAllString(text, "N")
	return regexp.MustCompile(` +`).ReplaceAllString(text, " ")
}
