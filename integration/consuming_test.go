package integration

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/integration/harness"
	"sluice/pkg/kafka"
	"sluice/pkg/order"
	"sluice/pkg/status"
	"sluice/pkg/testkit"
)

// page is docs/consuming.md: the commands that a reader types, in order, and the
// programs that they save under the name in the first line.
type page struct {
	commands []string
	programs map[string]string
}

func consumingPage(t *testing.T) page {
	t.Helper()
	p := page{programs: map[string]string{}}
	text := read(t, filepath.Join(harness.Root(), "docs", "consuming.md"))
	for _, m := range regexp.MustCompile("(?ms)^```(sh|go|python)\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		if m[1] == "sh" {
			p.commands = append(p.commands, m[2])
			continue
		}
		name := strings.Fields(strings.SplitN(m[2], "\n", 2)[0])[1]
		p.programs[name] = m[2]
	}
	if len(p.commands) < 7 || len(p.programs) != 3 {
		t.Fatalf("docs/consuming.md has %d commands and the programs %v", len(p.commands), p.programs)
	}
	return p
}

// command is the one that holds text.
func (p page) command(t *testing.T, text string) string {
	t.Helper()
	for _, c := range p.commands {
		if strings.Contains(c, text) {
			return c
		}
	}
	t.Fatalf("docs/consuming.md has no command with %q", text)
	return ""
}

// save writes the programs to a directory beside the checkout, as the page asks,
// and returns it.
func (p page) save(t *testing.T, checkout string) string {
	t.Helper()
	dir := filepath.Join(filepath.Dir(checkout), "statuses")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range p.programs {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// newCheckout stands for a checkout named sluice in a directory of its own, with
// the program built.
func newCheckout(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "sluice")
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{filepath.Join(harness.Root(), "pkg"): "pkg", filepath.Join(harness.Root(), "schemas"): "schemas", harness.Program(t): "bin/sluice"} {
		if err := os.Symlink(from, filepath.Join(dir, to)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// python is a PATH whose python3 has the client that the page uses.
func python(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(harness.Root(), ".cache", "python", "bin")
	if said, err := exec.CommandContext(t.Context(), filepath.Join(dir, "python3"), "-c", "import confluent_kafka").CombinedOutput(); err != nil {
		t.Fatalf("there is no Python with confluent-kafka in .cache/python: %v\n%s`make test` makes it, or: "+
			"python3 -m venv .cache/python && .cache/python/bin/python -m pip install -r .ci/python.txt", err, said)
	}
	return dir + string(os.PathListSeparator) + os.Getenv("PATH")
}

// shell is a command that runs in a directory, and all that it starts.
type shell struct {
	t    *testing.T
	cmd  *exec.Cmd
	done chan error
	mu   sync.Mutex
	said bytes.Buffer
}

func (s *shell) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said.Write(p)
}

func (s *shell) output() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said.String()
}

func startShell(t *testing.T, dir string, env []string, command string) *shell {
	t.Helper()
	s := &shell{t: t, cmd: exec.Command("bash", "-e", "-c", command), done: make(chan error, 1)}
	s.cmd.Dir, s.cmd.Env = dir, append(os.Environ(), env...)
	s.cmd.Stdout, s.cmd.Stderr = s, s
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { s.done <- s.cmd.Wait() }()
	t.Cleanup(func() { s.stop(syscall.SIGKILL) })
	return s
}

// stop sends the signal to the command and all that it started, and waits.
func (s *shell) stop(sig syscall.Signal) {
	_ = syscall.Kill(-s.cmd.Process.Pid, sig)
	err := <-s.done
	s.done <- err
}

// says waits until the output has all of these.
func (s *shell) says(want ...string) {
	s.t.Helper()
	harness.Eventually(s.t, fmt.Sprintf("the program says %q", want), 3*time.Minute, func() error {
		select {
		case err := <-s.done:
			s.done <- err
			s.t.Fatalf("%s ended: %v\n%s", s.cmd.Args, err, s.output())
		default:
		}
		for _, w := range want {
			if !strings.Contains(s.output(), w) {
				return fmt.Errorf("it says\n%s", s.output())
			}
		}
		return nil
	})
}

// types runs a command of the page to its end.
func types(t *testing.T, dir string, env []string, command string) string {
	t.Helper()
	s := startShell(t, dir, env, command)
	err := <-s.done
	s.done <- err // whoever stops it waits for this
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, s.output())
	}
	return s.output()
}

// publisher publishes as the relay does.
func publisher(t *testing.T, cfg kafka.Config) func(order string, versions ...int64) {
	t.Helper()
	shard, err := kafka.TakeShard(t.Context(), cfg, 0, testkit.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(shard.Close)
	return func(id string, versions ...int64) {
		t.Helper()
		var records []kafka.Record
		for _, v := range versions {
			m := status.Message{Source: "sluice", OrderID: id, Version: v, Status: order.Pending, Amount: 4990, Currency: "EUR",
				Cause: status.Cause{Source: "stripe-eu", EventID: fmt.Sprint("evt_", v)}, ChangedAt: time.UnixMicro(1_764_504_002_000_500)}
			if v > 1 {
				m.Previous, m.Status, m.Paid = order.Pending, order.Paid, 4990
			}
			for _, topic := range []string{kafka.Status, kafka.Latest} {
				records = append(records, kafka.Record{Topic: cfg.Topic(topic), Key: m.Key(), Value: m.Encode(), Headers: m.Headers()})
			}
		}
		if err := shard.Publish(t.Context(), records, []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
}

func where(cfg kafka.Config) []string {
	return []string{"KAFKA_BROKERS=" + strings.Join(cfg.Brokers, ","), "KAFKA_TOPIC_PREFIX=" + cfg.TopicPrefix}
}

// The message that the page shows is one.
func TestTheMessageOfTheConsumingPageIsOne(t *testing.T) {
	text := read(t, filepath.Join(harness.Root(), "docs", "consuming.md"))
	m := regexp.MustCompile("(?s)```json\n(.*?)```").FindStringSubmatch(text)
	if m == nil {
		t.Fatal("docs/consuming.md shows no message")
	}
	if got, err := status.Decode([]byte(m[1])); err != nil || got.ID() != "A-1.2" {
		t.Errorf("%s: %v", got.ID(), err)
	}
}

// The page's program that keeps orders in PostgreSQL: rebuilt, killed, started
// again, given repeats and a gap, it works on each message once.
func TestTheShopOfTheConsumingPageWorksOnEachMessageOnce(t *testing.T) {
	p, checkout, cfg := consumingPage(t), newCheckout(t), testkit.Kafka(t, 0)
	dir := p.save(t, checkout)
	database := testkit.Database(t).URL
	env := append(where(cfg), "SHOP_DATABASE_URL="+database)
	db, err := sql.Open("pgx", database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	becomes := func(want string) {
		t.Helper()
		harness.Eventually(t, "the shop has "+want, 2*time.Minute, func() error {
			var got string
			err := db.QueryRowContext(t.Context(), `SELECT (SELECT string_agg(order_id || '.' || version || ' ' || status, ', ' ORDER BY order_id) FROM shop_orders)
				|| '; mails ' || coalesce((SELECT string_agg(message_id, ', ' ORDER BY message_id) FROM shop_mails), 'none')`).Scan(&got)
			if err == nil && got != want {
				err = errors.New(got)
			}
			return err
		})
	}
	publish := publisher(t, cfg)
	publish("a", 1, 2, 1, 2)
	publish("b", 1)
	types(t, dir, env, p.command(t, "go work init"))
	run := p.command(t, "go run shop.go")
	s := startShell(t, dir, env, run)
	s.says("snapshot true")
	becomes("a.2 paid, b.1 pending; mails none")
	publish("b", 1, 2)
	becomes("a.2 paid, b.2 paid; mails b.2")
	s.stop(syscall.SIGKILL)
	publish("a", 1, 2, 3)
	publish("c", 1, 3)
	s = startShell(t, dir, env, run)
	becomes("a.3 paid, b.2 paid, c.3 paid; mails a.3, b.2, c.1, c.3")
	s.says(`missing: order "c": versions 2 to 2`)
}

func TestThePythonProgramOfTheConsumingPageRebuildsAndGoesOn(t *testing.T) {
	p, checkout, cfg := consumingPage(t), newCheckout(t), testkit.Kafka(t, 0)
	dir := p.save(t, checkout)
	env := append(where(cfg), "PATH="+python(t))
	publish := publisher(t, cfg)
	publish("a", 1, 2, 1)
	publish("b", 1)
	run := "exec " + p.command(t, "python3 shop.py")
	s := startShell(t, dir, env, run)
	s.says("a.2 paid", "b.1 pending")
	publish("b", 1, 2)
	s.says("b.2 paid")
	if said := s.output(); strings.Contains(said, "missing") || strings.Count(said, "b.1 ") != 1 {
		t.Errorf("it says\n%s", said)
	}
	s.stop(syscall.SIGINT)
	publish("a", 2, 3)
	publish("c", 1, 3)
	s = startShell(t, dir, env, run)
	s.says("a.3 paid", "c.1 pending", "c.3 paid", "missing: c, versions 2 to 2")
	if said := s.output(); strings.Contains(said, "b.") || strings.Contains(said, "a.2") {
		t.Errorf("it does again what was done:\n%s", said)
	}
	// A record that is no message is not skipped.
	s.stop(syscall.SIGINT)
	cl := testkit.Client(t, cfg)
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: cfg.Topic(kafka.Status), Key: []byte("a"), Value: []byte("{")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s = startShell(t, dir, env, run)
		select {
		case err := <-s.done:
			s.done <- err
			if err == nil || !strings.Contains(s.output(), "JSONDecodeError") {
				t.Errorf("it ended with %v:\n%s", err, s.output())
			}
		case <-time.After(2 * time.Minute):
			t.Fatalf("it goes on:\n%s", s.output())
		}
	}
}

// kcat ends behind the last message, where a transaction's marker lies, and shows
// nothing of one that was aborted.
func TestTheCommandsOfTheConsumingPageReadWhatIsCommitted(t *testing.T) {
	p, cfg := consumingPage(t), testkit.Kafka(t, 0)
	publish := publisher(t, cfg)
	publish("A-1", 1, 2)
	cl := testkit.Client(t, cfg, kgo.TransactionalID(cfg.TopicPrefix+"other"))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: cfg.Topic(kafka.Status), Key: []byte("A-1"), Value: []byte("never happened")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := cl.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	publish("A-2", 1)
	for text, messages := range map[string]int{"partition %p": 3, "awk -F": 2} {
		said := types(t, t.TempDir(), where(cfg), p.command(t, text))
		if strings.Count(said, `"specversion":"1.0"`) != messages || strings.Contains(said, "never") {
			t.Errorf("%s, want %d messages:\n%s", text, messages, said)
		}
	}
}

// Someone new, with `sluice dev` running, types the page from top to bottom.
func TestSomeoneNewFollowsTheConsumingPage(t *testing.T) {
	if _, err := exec.LookPath("kcat"); err != nil {
		t.Fatal("kcat is not installed: `apt-get install kcat`, or `brew install kcat`")
	}
	p, checkout := consumingPage(t), newCheckout(t)
	statuses := p.save(t, checkout)
	// What `make dev` does, without the day of webhooks. The parts of other tests are
	// none of its.
	dev := startShell(t, checkout, []string{"NO_COLOR=1", "KAFKA_TOPIC_PREFIX="}, "exec env -u KAFKA_BROKERS -u DATABASE_URL bin/sluice dev")
	t.Cleanup(func() { dev.stop(syscall.SIGTERM) })
	dev.says("Where")
	ready := func(command string) string {
		return "source " + filepath.Join(checkout, ".sluice", "env") + "\n" + command
	}
	types(t, checkout, nil, p.command(t, "bin/sluice send"))
	look := p.command(t, "partition %p")
	harness.Eventually(t, "kcat shows the order paid", time.Minute, func() error {
		said := types(t, checkout, nil, ready(look))
		if n := strings.Count(said, `"id":"A-1.`); n != 2 || !strings.Contains(said, `"status":"paid"`) {
			return fmt.Errorf("%d messages:\n%s", n, said)
		}
		return nil
	})
	if said := types(t, checkout, nil, ready(p.command(t, "awk -F"))); strings.Count(said, "\n") != 2 {
		t.Errorf("the order's messages are\n%s", said)
	}
	types(t, statuses, nil, p.command(t, "go work init"))
	startShell(t, statuses, nil, ready(p.command(t, "go run follow.go"))).says("A-1.2 paid 4990 EUR")
	env := []string{"PATH=" + python(t), "SHOP_DATABASE_URL=" + testkit.Database(t).URL}
	startShell(t, statuses, env, ready(p.command(t, "go run shop.go"))).says("snapshot true")
	startShell(t, statuses, env, ready(p.command(t, "python3 shop.py"))).says("A-1.2 paid")
}
