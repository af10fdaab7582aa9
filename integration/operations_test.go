package integration

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/integration/harness"
	"sluice/pkg/kafka"
	"sluice/pkg/order"
	"sluice/pkg/testkit/provider"

	"github.com/twmb/franz-go/pkg/kgo"
)

// runbook is one chapter of docs/operations.md: its reader, at a shell, in the situation
// that the chapter is about.
type runbook struct {
	*harness.Deployment
	t        *testing.T
	commands []string // as the page has them, in order
	dir      string
	env      []string
}

// chapters are the commands of a page of docs by their chapter; only of those that
// have any.
func chapters(t *testing.T, page string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	text := read(t, filepath.Join(harness.Root(), "docs", page))
	for _, chapter := range strings.Split(text, "\n## ")[1:] {
		title, body, _ := strings.Cut(chapter, "\n")
		for _, m := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(body, -1) {
			found[title] = append(found[title], m[1])
		}
	}
	return found
}

// types runs the chapter's next command, which must succeed and say all of these.
func (b *runbook) types(want ...string) (said string) {
	b.t.Helper()
	if len(b.commands) == 0 {
		b.t.Fatal("the chapter has no further command")
	}
	command := b.commands[0]
	b.commands = b.commands[1:]
	said = types(b.t, b.dir, slices.Concat(b.Env(), b.env), "set -o pipefail\n"+command)
	for _, w := range want {
		if !regexp.MustCompile(w).MatchString(said) {
			b.t.Errorf("the command\n%sdoes not say %q:\n%s", command, w, said)
		}
	}
	return said
}

// says adds to what the reader's environment has.
func (b *runbook) set(format string, args ...any) {
	b.env = append(b.env, fmt.Sprintf(format, args...))
}

func newRunbook(t *testing.T, commands []string) *runbook {
	t.Helper()
	b := &runbook{Deployment: harness.New(t, 2), t: t, commands: commands, dir: t.TempDir()}
	bin := filepath.Join(b.dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(harness.Program(t), filepath.Join(bin, "sluice")); err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"jq", "curl", "psql", "pg_dump", "pg_restore"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("%s is not installed: .ci/install brings it on Debian", tool)
		}
	}
	b.set("PATH=%s", strings.Join([]string{bin, filepath.Dir(kafkaTool(t, "kafka-consumer-groups.sh")), os.Getenv("PATH")}, string(os.PathListSeparator)))
	b.set("KAFKA_BROKERS=%s", strings.Join(b.Kafka.Brokers, ",")) // Kafka's own tools know no proxy
	b.set("USER=anna")
	return b
}

// runbooks put each chapter's reader into its situation.
var runbooks = map[string]func(*runbook){
	"The books do not add up": booksRunbook,
	"Lag":                     lagRunbook,
	"Held orders":             heldRunbook,
	"Dead letters":            deadRunbook,
	"Replay after a bug":      replayRunbook,
	"Rotate a secret":         rotateRunbook,
	"The broker is out":       brokerRunbook,
	"A provider is out":       providerRunbook,
	"Restore from a backup":   restoreRunbook,
}

// Nobody should type a command of docs/operations.md for the first time at night.
func TestEveryRunbookDoesWhatItSays(t *testing.T) {
	found := chapters(t, "operations.md")
	for title := range runbooks {
		if found[title] == nil {
			t.Errorf("docs/operations.md has no chapter %q with commands", title)
		}
	}
	for title, commands := range found {
		run := runbooks[title]
		if run == nil {
			t.Errorf("nobody tries the commands of the chapter %q", title)
			continue
		}
		t.Run(title, func(t *testing.T) {
			b := newRunbook(t, commands)
			run(b)
			if len(b.commands) != 0 {
				t.Errorf("%d commands were not tried, the first is\n%s", len(b.commands), b.commands[0])
			}
		})
	}
}

func booksRunbook(b *runbook) {
	ingress, merchant := b.Start("ingress"), b.Start("merchant")
	b.Start("processor")
	b.Start("relay")
	pay(b.Deployment, ingress, merchant, "B-1")
	b.Becomes("B-1", "paid")
	b.BooksBalance()
	for _, table := range []string{"books", "processed_events", "order_events"} { // somebody edits tables
		b.Exec(`DELETE FROM ` + table)
	}
	b.types(`evt_B-1`, `the books differ`)
	b.set("EVENT=evt_B-1")
	b.types(`event evt_B-1`, `partition \d+, offset 0`)
}

func lagRunbook(b *runbook) {
	ingress, merchant := b.Start("ingress"), b.Start("merchant")
	processor := b.Start("processor")
	b.set("PROCESSOR_ADMIN_ADDRESS=%s", processor.Admin)
	for i := range 10 {
		pay(b.Deployment, ingress, merchant, fmt.Sprint("L-", i))
	}
	b.BooksBalance()
	b.types(regexp.QuoteMeta(b.Kafka.Topic(kafka.Raw)))
	b.types(`nobody has replayed anything`)
	b.types(`processor.*ready|ready.*processor`)
	b.Start("processor") // the company
	pay(b.Deployment, ingress, merchant, "L-more")
	b.Becomes("L-more", "paid")
}

func heldRunbook(b *runbook) {
	env := []string{"SLUICE_HELD_GRACE=1ms", "SLUICE_PROCESSOR_CHORES=200ms"}
	ingress, merchant := b.Start("ingress"), b.Start("merchant")
	b.Start("processor", env...)
	b.Start("relay")
	b.Register(merchant, "H-1", 300)
	b.Accept(ingress, harness.Stripe(harness.Intent("evt_H-1", "succeeded", "H-1", "pi_H-1", 250, time.Now())))
	people{b.Deployment, nil}.item("H-1")
	b.types(`H-1`, `amount.mismatch`)
	b.types(`apply it anyway|accept`)
	b.set("ORDER=H-1")
	b.types(`H-1`, `accept`)
	b.Becomes("H-1", "paid")
	b.Sound(nil)
}

func rotateRunbook(b *runbook) {
	intent := func(n int) []byte {
		return harness.Intent(fmt.Sprint("evt_R-", n), "succeeded", "R-1", "pi_R-1", 300, time.Now())
	}
	const fresh = "whsec_4f8a0c1e7b9d2365" // the page's
	signed := func(secret string, n int) harness.Webhook { return harness.StripeAt(intent(n), secret, time.Now()) }
	old := b.Start("ingress")
	b.Accept(old, signed(harness.StripeSecret, 0))
	if got := b.Post(old, signed(fresh, 1)); got != http.StatusUnauthorized {
		b.t.Errorf("before the rotation the new secret is answered %d", got)
	}
	file := filepath.Join(b.dir, "endpoints.yaml")
	write := func(secrets string) {
		text := "endpoints:\n  - {name: stripe, provider: stripe, secrets: [" + secrets + "]}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			b.t.Fatal(err)
		}
	}
	write("env:STRIPE_SECRET, env:STRIPE_SECRET_NEW")
	b.set("SLUICE_ENDPOINTS=%s", file)
	b.types()
	both := b.Start("ingress", append(b.env, "STRIPE_SECRET_NEW="+fresh)...)
	if code := old.Stop(); code != 0 {
		b.t.Errorf("the ingress ended with %d", code)
	}
	b.Accept(both, signed(harness.StripeSecret, 2))
	b.Accept(both, signed(fresh, 3))
	b.Accept(both, signed(fresh, 4))
	b.set("INGRESS_ADMIN_ADDRESS=%s", both.Admin)
	b.types(`secret="env:STRIPE_SECRET"} 1`, `secret="env:STRIPE_SECRET_NEW"} 2`)
	write("env:STRIPE_SECRET_NEW")
	one := b.Start("ingress", append(b.env, "STRIPE_SECRET_NEW="+fresh)...)
	b.Accept(one, signed(fresh, 5))
	if got := b.Post(one, signed(harness.StripeSecret, 6)); got != http.StatusUnauthorized {
		b.t.Errorf("after the rotation the old secret is answered %d", got)
	}
}

func brokerRunbook(b *runbook) {
	ingress, merchant := b.Start("ingress"), b.Start("merchant")
	b.Start("processor")
	b.Start("relay")
	b.set("INGRESS_ADMIN_ADDRESS=%s", ingress.Admin)
	pay(b.Deployment, ingress, merchant, "K-1")
	b.Becomes("K-1", "paid")
	b.Proxy.Cut()
	b.Register(merchant, "K-2", 300)
	w := harness.Stripe(harness.Intent("evt_K-2", "succeeded", "K-2", "pi_K-2", 300, time.Now()))
	harness.Eventually(b.t, "ingress says that it can take nothing", 30*time.Second, func() error {
		if got := b.Post(ingress, w); got != http.StatusServiceUnavailable {
			return fmt.Errorf("answered %d", got)
		}
		if ingress.IsReady() == nil {
			return errors.New("it is ready")
		}
		return nil
	})
	b.types(`ingress`)
	b.Proxy.Restore()
	harness.Eventually(b.t, "the provider's retry is taken", 30*time.Second, func() error {
		if got := b.Post(ingress, w); got != http.StatusOK {
			return fmt.Errorf("answered %d", got)
		}
		return nil
	})
	b.Becomes("K-2", "paid")
	b.BooksBalance()
	b.types(`total +`)
	b.Sound([]string{"evt_K-1", "evt_K-2"})
}

func restoreRunbook(b *runbook) {
	ingress := b.Start("ingress")
	roles := map[string]*harness.Process{}
	start := func() {
		for _, role := range []string{"merchant", "processor", "relay"} {
			roles[role] = b.Start(role)
		}
	}
	start()
	pay(b.Deployment, ingress, roles["merchant"], "G-1")
	b.Becomes("G-1", "paid")
	b.Register(roles["merchant"], "G-2", 300)
	b.BooksBalance()
	b.types()
	pay(b.Deployment, ingress, roles["merchant"], "G-3") // its registration is younger than the backup
	b.Accept(ingress, harness.Stripe(harness.Intent("evt_G-2", "succeeded", "G-2", "pi_G-2", 300, time.Now())))
	b.Accept(ingress, harness.Stripe(harness.RefundTotal("evt_G-1r", "G-1", "pi_G-1", 300, 300, time.Now())))
	b.Becomes("G-1", "refunded")
	b.Becomes("G-2", "paid")
	b.BooksBalance()
	for role, p := range roles {
		if code := p.Stop(); code != 0 {
			b.t.Errorf("the %s ended with %d", role, code)
		}
	}
	b.types()
	if got, _ := b.Order("G-1"); got != "paid" {
		b.t.Fatalf("the backup has order G-1 as %q", got)
	}
	start()
	b.Becomes("G-1", "refunded")
	b.Becomes("G-2", "paid")
	b.Register(roles["merchant"], "G-3", 300)
	b.Becomes("G-3", "paid")
	b.BooksBalance()
	b.types(`rewound`, `total +`)
}

func deadRunbook(b *runbook) {
	known := filepath.Join(b.dir, "known.yaml") // without the endpoint standard
	if err := os.WriteFile(known, []byte("endpoints:\n  - {name: stripe, provider: stripe, secrets: [env:STRIPE_SECRET]}\n"), 0o600); err != nil {
		b.t.Fatal(err)
	}
	ingress, merchant := b.Start("ingress"), b.Start("merchant")
	processor := b.Start("processor", "SLUICE_ENDPOINTS="+known)
	b.Start("relay")
	b.Register(merchant, "D-1", 300)
	b.Accept(ingress, harness.Standard("evt_D-1", harness.Payment("succeeded", "D-1", "pay_D-1", 300, time.Now())))
	b.dead(1)
	if code := processor.Stop(); code != 0 {
		b.t.Errorf("the processor ended with %d", code)
	}
	b.types(`standard`, `endpoint`, `can be read  event evt_D-1`)
	b.Start("processor")
	b.types(`sent again`)
	b.Becomes("D-1", "paid")
	if err := b.Client().ProduceSync(b.t.Context(), &kgo.Record{Topic: b.Kafka.Topic(kafka.Raw), Key: []byte("by hand"), Value: []byte("?")}).FirstErr(); err != nil {
		b.t.Fatal(err)
	}
	b.dead(2)
	b.BooksBalance()
	b.types(`discard`, `total +`)
}

// dead waits until there are n dead letters in all.
func (b *runbook) dead(n int64) {
	b.t.Helper()
	harness.Eventually(b.t, fmt.Sprintf("there are %d dead letters", n), 30*time.Second, func() error {
		if got := b.Count(`SELECT count(*) FROM dead_letters`); got != n {
			return fmt.Errorf("%d", got)
		}
		return nil
	})
}

// acme is an endpoint of a provider that is declared, and where its amount is read.
func (b *runbook) acme(amount string) string {
	b.t.Helper()
	file := filepath.Join(b.dir, "endpoints.yaml")
	text := fmt.Sprintf(`endpoints:
  - name: acme
    provider: declared
    secrets: [env:STRIPE_SECRET]
    declared:
      signature: {header: X-Acme-Signature, algorithm: sha256, encoding: hex}
      reading:
        id: id
        type: type
        order: order
        payment: payment
        amount: %s
        amount_unit: minor
        currency: currency
        facts: [{type: paid, kind: paid}]
`, amount)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return "SLUICE_ENDPOINTS=" + file
}

// acmePays is acme's webhook of a payment, and of its fee.
func acmePays(order string, amount, fee int64) harness.Webhook {
	body := fmt.Appendf(nil, `{"id":"evt_%[1]s","type":"paid","order":%[1]q,"payment":"pay_%[1]s","amount":%[2]d,"fee":%[3]d,"currency":"USD"}`, order, amount, fee)
	mac := hmac.New(sha256.New, []byte(harness.StripeSecret))
	mac.Write(body)
	return harness.Webhook{Endpoint: "acme", Body: body, Header: http.Header{"Content-Type": {"application/json"},
		"X-Acme-Signature": {hex.EncodeToString(mac.Sum(nil))}}}
}

func replayRunbook(b *runbook) {
	o := newOutside(b.t)
	env := o.declare("")
	wrong := b.acme("fee")
	b.set("%s", wrong)
	ingress, merchant := b.Start("ingress", wrong), b.Start("merchant", env...)
	processor := b.Start("processor", append(env, wrong)...)
	b.Start("relay", env...)
	for i := range 20 { // one of four has a fee as high as its amount
		id, fee := fmt.Sprint("F-", i), int64(5)
		if i%4 == 0 {
			fee = 300
		}
		b.Register(merchant, id, 300)
		b.Accept(ingress, acmePays(id, 300, fee))
	}
	b.BooksBalance()
	if n := b.Count(`SELECT count(*) FROM orders WHERE status = $1`, int(order.Paid)); n != 5 {
		b.t.Fatalf("%d orders are paid under the wrong rules", n)
	}
	b.acme("amount") // the bug is fixed
	processor.Stop()
	b.Start("processor", append(env, wrong)...)
	b.set("SLUICE_EFFECTS=%s", strings.TrimPrefix(env[0], "SLUICE_EFFECTS="))
	b.set("EFFECT_SECRET=%s", effectSecret)

	b.set("SINCE=%s", time.Now().Add(-6*time.Hour).UTC().Format(time.RFC3339))
	b.types(`F-1 `, `those orders would be different`)
	b.types(`15`)
	b.types()
	for i := range 20 {
		b.Becomes(fmt.Sprint("F-", i), "paid")
	}
	b.types(`total +`)
	waitDone(b.Deployment, 20)
	if acts := o.acts(); acts != 20 {
		b.t.Errorf("%d acts, want one an order", acts)
	}
	b.Exec(`DELETE FROM processed_events`)
	b.types(`done|ended`)
	b.Sound(nil)
	if acts := o.acts(); acts != 20 {
		b.t.Errorf("%d acts after the replay, want one an order", acts)
	}
}

func providerRunbook(b *runbook) {
	lists := &provider.Lists{Provider: "stripe", API: &provider.Objects{Provider: "stripe", Secret: "sk_live_integration"}, Header: "Authorization", Value: "Bearer sk_live_integration"}
	api := &provider.Faulty{API: lists}
	api.Fail(provider.Status(http.StatusServiceUnavailable, ""))
	server := httptest.NewServer(api)
	b.t.Cleanup(server.Close)
	file := filepath.Join(b.dir, "endpoints.yaml")
	text := fmt.Sprintf("endpoints:\n  - {name: stripe, provider: stripe, secrets: [env:STRIPE_SECRET], lookup: {base_url: %q, credentials: [env:STRIPE_KEY], rate: 50, sweep: {every: 1m}}}\n", server.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	b.set("SLUICE_ENDPOINTS=%s", file)
	b.set("STRIPE_KEY=sk_live_integration")
	env := slices.Concat(b.env, []string{"SLUICE_RECONCILER_BREAK_AFTER=2", "SLUICE_RECONCILER_BREAK_FOR=1s", "SLUICE_RECONCILER_POLL_INTERVAL=100ms", "SLUICE_RECONCILER_BACKOFF_BASE=100ms", "SLUICE_RECONCILER_BACKOFF_MAX=1s"})
	ingress, merchant := b.Start("ingress", env...), b.Start("merchant", env...)
	b.Start("processor", env...)
	b.Start("relay")
	now := time.Now().Add(-10 * time.Minute) // what happened just now has its webhook on the way
	lost := func(order string) []byte {      // a webhook that never comes
		body := harness.Intent("evt_"+order, "succeeded", order, "pi_"+order, 300, now)
		lists.Put("/v1/events", "evt_"+order, now, string(body))
		b.Register(merchant, order, 300)
		return body
	}
	late := lost("P-1")
	reconciler := b.Start("reconciler", env...)
	b.set("RECONCILER_ADMIN_ADDRESS=%s", reconciler.Admin)
	harness.Eventually(b.t, "the reconciler leaves the provider alone", 30*time.Second, func() error {
		if n := len(api.Requests()); n < 2 {
			return fmt.Errorf("%d requests", n)
		}
		return nil
	})
	b.types(`requests_stopped{source="stripe"} 1`)
	if status, _ := b.Order("P-1"); status != "pending" {
		b.t.Errorf("silence made the order %q", status)
	}
	api.Fail(nil)
	b.Becomes("P-1", "paid") // by the sweep
	lost("P-2")              // after it
	b.set("DAY=%s", now.UTC().Format(time.DateOnly))
	b.types(`Missing here`, `P-2`, `the providers and we differ`)
	b.types()
	b.Becomes("P-2", "paid")
	b.Accept(ingress, harness.Stripe(late))
	b.BooksBalance()
	if n := b.Count(`SELECT count(*) FROM order_transitions`); n != 4 {
		b.t.Errorf("%d changes of two orders, want four", n)
	}
	b.Sound(nil)
}
