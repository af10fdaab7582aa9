package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"

	"sluice/pkg/daemon"
	"sluice/pkg/kafka"
	"sluice/pkg/testkit"
)

// `sluice dev` starts its broker as this very program: here, the test's.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "broker" {
		if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func sluice(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(args, &out, &out)
	return out.String(), err
}

func TestEveryCommandTeachesByExample(t *testing.T) {
	parser, err := kong.New(&cli{}, kong.Bind(&console{}))
	if err != nil {
		t.Fatal(err)
	}
	var walk func(n *kong.Node)
	walk = func(n *kong.Node) {
		if n.Help == "" {
			t.Errorf("%s: says nothing", n.FullPath())
		}
		if n.Leaf() && n.Name != "version" && !strings.Contains(n.Detail, "Example") {
			t.Errorf("%s: no example", n.FullPath())
		}
		for _, below := range n.Children {
			walk(below)
		}
	}
	for _, n := range parser.Model.Children {
		walk(n)
	}
}

func TestAnUnknownCommandOrFlagSaysWhereToLook(t *testing.T) {
	for _, args := range [][]string{{"nonsense"}, {"dev", "--nonsense"}, {"run", "nobody"}, {"send", "--type", "nonsense"}} {
		if _, err := sluice(t, args...); err == nil || !strings.Contains(err.Error(), "--help") && !strings.Contains(err.Error(), "there are") {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func TestWrongUseEndsWith2AndNamesTheCommandsOwnHelp(t *testing.T) {
	for args, want := range map[string]string{
		"replay --reset-offsets":         "(sluice replay --help",
		"dead-letters":                   "(sluice dead-letters --help",
		"dead-letters send-again 0/1":    "(sluice dead-letters send-again --help",
		"review list --kind nonsense":    "provider_contradicts",
		"audit --since 2026-13-01":       "--since",
		"config check nobody":            "there are",
		"drift --day 2926-11-29":         "yet to come",
		"replay --shift-by --order A-1":  "--shift-by",
		"replay --shift-by -7 --execute": "--reason", // and so the number was read
		"--nonsense":                     "(sluice --help",
	} {
		t.Setenv("KAFKA_BROKERS", "127.0.0.1:1")
		t.Setenv("DATABASE_URL", "postgres://127.0.0.1:1/nothing")
		if _, err := sluice(t, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) || exitCode(err) != 2 {
			t.Errorf("%s: exit %d, %v", args, exitCode(err), err)
		}
	}
}

func TestWhereNobodyListensTheNextStepIsNamed(t *testing.T) {
	t.Setenv("DATABASE_URL", "postgres://127.0.0.1:1/nothing")
	if _, err := sluice(t, "review", "list"); exitCode(err) != 1 || err == nil || !strings.Contains(err.Error(), "nobody listens there") {
		t.Error(err)
	}
}

func TestSendRefusesWhatNoProviderSends(t *testing.T) {
	for flag, want := range map[string]string{"--amount=-1": "--amount", "--total=-1": "--total", "--currency=XXX": "ISO 4217", "--currency=euro": "ISO 4217",
		"--count=0": "--count", "--duplicates=-1": "--duplicates", "--rate=-1": "--rate"} {
		// Nobody listens there, and there is no endpoints file: neither is reached for.
		if _, err := sluice(t, "send", flag, "--url", "http://127.0.0.1:1", "--endpoints", "none"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

func check(t *testing.T, e environment, roles ...string) string {
	t.Helper()
	sections, err := configCheckCmd{Roles: roles}.check(context.Background(), e)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, s := range sections {
		if s.err != nil {
			fmt.Fprintf(&b, "%s: %v\n", s.name, s.err)
		}
	}
	return b.String()
}

func endpoints(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "endpoints.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// O05: a deployment that cannot verify does not start, and says all of why.
func TestConfigCheckPrintsEveryProblemAtOnceAndNoSecret(t *testing.T) {
	const secret = "hunter2-hunter2-hunter2"
	file := endpoints(t, `endpoints:
  - {name: one, provider: nobody, secrets: [env:ONE]}
  - {name: two, provider: stripe, secrets: [env:NOT_SET]}
  - {name: three, provider: stripe, secrets: [`+secret+`]}
`)
	got := check(t, environment{"SLUICE_MODE": "live", "SLUICE_ENDPOINTS": file, "ONE": secret, "SLUICE_INGRESS_DEADLINE": secret,
		"SLUICE_PROCESSOR_WORKERS":    "many",
		"SLUICE_HELD_GRACE_BY_REASON": "awaiting_orders:1h", "SLUICE_RELAY_LEASE_TTL": "1ms", "SLUICE_MERCHANT_ADDRESS": "0.0.0.0:8081", "SLUICE_LOG_FORMAT": "xml"})
	for _, want := range []string{
		"ingress: ", "KAFKA_BROKERS is not set", "SLUICE_INGRESS_DEADLINE cannot be read as a duration", `endpoint "one": provider`, "NOT_SET", `endpoint "three": secrets[0]`,
		"processor: ", "DATABASE_URL is not set", "SLUICE_PROCESSOR_WORKERS cannot be read as a whole number", `SLUICE_HELD_GRACE_BY_REASON: "awaiting_orders"`,
		"relay: ", "SLUICE_RELAY_LEASE_TTL",
		"merchant: ", "SLUICE_MERCHANT_TOKEN",
		"process: ", "SLUICE_LOG_FORMAT",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("not said: %s", want)
		}
	}
	if strings.Contains(got, secret) {
		t.Error("a secret was printed")
	}
	if t.Failed() {
		t.Log(got)
	}
}

// One wrong setting hides no other, and is told once.
func TestConfigCheckIsNotStoppedByOneProblem(t *testing.T) {
	file := endpoints(t, `endpoints:
  - {name: one, provider: nobody, secrets: [env:ONE]}
  - {name: two, provider: stripe, secrets: [env:ONE]}
`)
	sound := environment{"SLUICE_ENDPOINTS": file, "ONE": "whsec_of_this_very_test_only", "KAFKA_BROKERS": "a:9092", "DATABASE_URL": "postgres://x", "SLUICE_MODE": "test"}
	for name, c := range map[string]struct {
		role   string
		change environment
		says   []string
		never  []string
	}{
		"no mode":           {"processor", environment{"SLUICE_MODE": ""}, []string{"SLUICE_MODE is empty", `endpoint "one": provider`}, []string{"has no mode"}},
		"no mode, ingress":  {"ingress", environment{"SLUICE_MODE": ""}, []string{"SLUICE_MODE is empty", `endpoint "one": provider`}, []string{`endpoint "two"`}},
		"wrong mode":        {"ingress", environment{"SLUICE_MODE": "prod"}, []string{`(SLUICE_MODE) is "prod"`, `endpoint "one": provider`}, []string{`"two"`, "mode: is"}},
		"unparsable":        {"ingress", environment{"SLUICE_INGRESS_DEADLINE": "soon", "SLUICE_INGRESS_REQUESTS": "0"}, []string{"DEADLINE cannot be read", "SLUICE_INGRESS_REQUESTS is 0", `endpoint "one"`}, []string{"DEADLINE is 0"}},
		"unparsable, relay": {"relay", environment{"SLUICE_RELAY_BATCH": "all", "SLUICE_RELAY_LEASE_TTL": "1ms"}, []string{"BATCH cannot be read", "LEASE_TTL must"}, []string{"BATCH is"}},
		"what connects": {"relay", environment{"DATABASE_URL": "mysql://u:hidden@h/d?x=1", "KAFKA_BROKERS": "kafka,b:9092,:1,b:x", "KAFKA_SASL": "plain", "KAFKA_TOPIC_PREFIX": "a/b."},
			[]string{"DATABASE_URL: it is not", `"kafka" is not host:port`, `":1" is not`, `"b:x" is not`, "KAFKA_SASL must be", "KAFKA_TOPIC_PREFIX is"}, []string{"hidden", `"b:9092"`}},
		"SASL without a user":     {"relay", environment{"KAFKA_SASL": "PLAIN"}, []string{"KAFKA_USER is empty"}, nil},
		"no certificates":         {"relay", environment{"KAFKA_TLS": "true", "KAFKA_CA_FILE": file}, []string{"holds no PEM certificate"}, nil},
		"the process":             {"relay", environment{"SLUICE_ADMIN_ADDRESS": "9090", "SLUICE_LOG_LEVEL": "loud", "SLUICE_LOG_FORMAT": "xml"}, []string{"SLUICE_ADMIN_ADDRESS is", "debug, info, warn or error", "SLUICE_LOG_FORMAT"}, nil},
		"an empty database":       {"merchant", environment{"DATABASE_URL": ""}, []string{"DATABASE_URL is empty"}, []string{"it is not a"}},
		"graces that are no list": {"merchant", environment{"SLUICE_HELD_GRACE_BY_REASON": "soon"}, []string{"cannot be read as pairs like"}, []string{"map["}},
	} {
		t.Run(name, func(t *testing.T) {
			e := maps.Clone(sound)
			maps.Copy(e, c.change)
			got := check(t, e, c.role)
			for _, want := range c.says {
				if strings.Count(got, want) != 1 {
					t.Errorf("%q is said %d times in:\n%s", want, strings.Count(got, want), got)
				}
			}
			for _, word := range c.never {
				if strings.Contains(got, word) {
					t.Errorf("%q is said in:\n%s", word, got)
				}
			}
		})
	}
	e := maps.Clone(sound)
	delete(e, "SLUICE_MODE")
	if got := check(t, e, "processor"); !strings.Contains(got, "SLUICE_MODE is not set") || !strings.Contains(got, `endpoint "one"`) {
		t.Errorf("without a mode: %s", got)
	}
}

func TestEverySettingHasAMeaning(t *testing.T) {
	for _, settings := range []reflect.Type{reflect.TypeFor[ingressSettings](), reflect.TypeFor[processorSettings](), reflect.TypeFor[relaySettings](),
		reflect.TypeFor[merchantSettings](), reflect.TypeFor[migrateSettings](), reflect.TypeFor[daemon.Config]()} {
		found := settingsOf(settings)
		if len(found) == 0 {
			t.Errorf("%v: no settings", settings)
		}
		for _, s := range found {
			if s.help == "" {
				t.Errorf("%v: %s means nothing", settings, s.key)
			}
		}
	}
	help := relayCmd{}.Help()
	if strings.Contains(help, "SLUICE_HELD_GRACE") || strings.Contains(help, "SLUICE_WINDOW") {
		t.Errorf("the relay's help lists what it does not read:\n%s", help)
	}
	for _, want := range []string{"SLUICE_RELAY_LEASE_TTL", "how long the shards of a dead relay wait", "DATABASE_URL", "(required)"} {
		if !strings.Contains(help, want) {
			t.Errorf("the relay's help does not say %q", want)
		}
	}
}

func TestConfigCheckPassesWhatIsRight(t *testing.T) {
	file := endpoints(t, "endpoints:\n  - {name: one, provider: stripe, secrets: [env:ONE]}\n")
	e := environment{"SLUICE_MODE": "test", "SLUICE_ENDPOINTS": file, "ONE": "whsec_of_this_very_test_only", "KAFKA_BROKERS": "a:9092", "DATABASE_URL": "postgres://x",
		"SLUICE_HELD_GRACE_BY_REASON": "awaiting_order:1h,over_refund:0s"}
	if got := check(t, e); got != "" {
		t.Error(got)
	}
	delete(e, "DATABASE_URL")
	if got := check(t, e, "ingress"); got != "" {
		t.Errorf("ingress needs no database: %s", got)
	}
	if _, err := (configCheckCmd{Roles: []string{"nobody"}}).check(t.Context(), e); err == nil {
		t.Error("checked a role that does not exist")
	}
}

func TestConfigCheckConnectSaysWhatDoesNotAnswer(t *testing.T) {
	e := environment{"KAFKA_BROKERS": "127.0.0.1:1", "DATABASE_URL": "postgres://u:hidden-password@127.0.0.1:1/d"}
	for _, s := range connect(t.Context(), e, roles) {
		if s.err == nil {
			t.Errorf("%s, though nobody listens", s.name)
		} else if strings.Contains(s.err.Error(), "hidden-password") {
			t.Errorf("the password is in %v", s.err)
		}
	}
}

func TestConfigCheckConnectChecksTopicsAndSchema(t *testing.T) {
	cfg, database := testkit.Kafka(t, 1), testkit.Database(t)
	e := environment{"KAFKA_BROKERS": strings.Join(cfg.Brokers, ","), "KAFKA_TOPIC_PREFIX": cfg.TopicPrefix, "DATABASE_URL": database.URL}
	found := func() string {
		var b strings.Builder
		for _, s := range connect(t.Context(), e, roles) {
			fmt.Fprintf(&b, "%s: %v\n", s.name, s.err)
		}
		return b.String()
	}
	expect := func(when string, wants ...string) {
		t.Helper()
		for tries := 0; ; tries++ { // brokers hear of changes a moment later
			got := found()
			missing := slices.DeleteFunc(slices.Clone(wants), func(w string) bool { return strings.Contains(got, w) })
			switch {
			case len(missing) == 0:
				return
			case tries == 100:
				t.Fatalf("%s: %q is not said in\n%s", when, missing, got)
			}
			<-time.After(50 * time.Millisecond)
		}
	}
	expect("as migrated", "topics are as they must be: <nil>", "schema is this version's: <nil>")

	adm := testkit.Admin(t, cfg)
	set := func(topic, key, value string) {
		t.Helper()
		if _, err := adm.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: key, Value: &value}}, cfg.Topic(topic)); err != nil {
			t.Fatal(err)
		}
	}
	set(kafka.Raw, "message.timestamp.type", "CreateTime")
	set(kafka.DeadLetters, "max.message.bytes", "1000")
	set(kafka.Latest, "cleanup.policy", "delete")
	set(kafka.Raw, "retention.ms", "8640000000")
	expect("changed", "LogAppendTime", "max.message.bytes=1000", "cleanup.policy=delete", "100.0 days")
	e["SLUICE_WINDOW"] = "365"
	if got := found(); strings.Contains(got, "100.0 days") {
		t.Errorf("a longer window does not help: %s", got)
	}
	if _, err := adm.DeleteTopic(t.Context(), cfg.Topic(kafka.Latest)); err != nil {
		t.Fatal(err)
	}
	expect("deleted", cfg.Topic(kafka.Latest)+" is not there yet; run `sluice migrate`", "max.message.bytes=1000")

	for change, want := range map[string]string{
		`DROP SCHEMA public CASCADE; CREATE SCHEMA public`:  "is not there yet; run `sluice migrate`",
		`DELETE FROM goose_db_version WHERE version_id > 0`: "differs from this program's",
	} {
		old := testkit.Database(t)
		conn, err := pgx.Connect(t.Context(), old.URL)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), change); err != nil {
			t.Fatal(err)
		}
		_ = conn.Close(t.Context())
		e["DATABASE_URL"] = old.URL
		if got := found(); !strings.Contains(got, "schema is this version's: database schema "+want) {
			t.Errorf("%s: %s", change, got)
		}
	}
}

func TestConfigCheckConnectReachesOnlyForWhatARoleNeeds(t *testing.T) {
	for role, words := range map[string][2]string{"ingress": {"Kafka", "database"}, "merchant": {"database", "Kafka"}} {
		sections, err := configCheckCmd{Roles: []string{role}, Connect: true}.check(t.Context(), environment{})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, s := range sections {
			names = append(names, s.name)
		}
		if all := strings.Join(names, ", "); !strings.Contains(all, words[0]+" answers") || strings.Contains(all, words[1]) {
			t.Errorf("for %s it reaches: %s", role, all)
		}
	}
}

func TestASettingIsNamedByItsVariable(t *testing.T) {
	type nested struct {
		Ingress ingressSettings
		Relay   relaySettings
	}
	_, err := read[nested](environment{"KAFKA_BROKERS": "x", "DATABASE_URL": "x", "SLUICE_MODE": "live", "SLUICE_RELAY_DRAIN_TIMEOUT": "x", "SLUICE_INGRESS_REQUESTS": "x", "KAFKA_TLS": "x"})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"SLUICE_RELAY_DRAIN_TIMEOUT", "SLUICE_INGRESS_REQUESTS", "KAFKA_TLS"} {
		if !strings.Contains(err.Error(), want+" cannot be read") {
			t.Errorf("%s is not named in: %v", want, err)
		}
	}
}

var accepted = regexp.MustCompile(`accepted \(records in the raw topic\)\s+(\d+)`)

// The whole of it, twice on one data directory: what the first run accepted is
// there in the second, and the books add up over both.
func TestSluiceDevRunsItsDemoAndKeepsEverythingFromRunToRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	t.Setenv("KAFKA_TLS", "true") // a setting for another cluster must not matter
	day := func() int {
		out, err := sluice(t, "dev", "--demo", "--exit", "--data-dir", dir, "--listen", "127.0.0.1:0", "--api", "127.0.0.1:0", "--public", "127.0.0.1:0", "--click-api", "127.0.0.1:0", "--admin", "127.0.0.1:0")
		if err != nil {
			log, _ := os.ReadFile(filepath.Join(dir, "sluice.log"))
			t.Fatalf("%v\n%s\n%s", err, out, log)
		}
		for _, want := range []string{"not for production", "first order status on Kafka", "refused with 401", "held: second_payment", "PerformTransaction", "looked_up.paid", "looked_up.failed", "orders.status.v1", "unaccounted"} {
			if !strings.Contains(out, want) {
				t.Errorf("does not say %q", want)
			}
		}
		if strings.ContainsRune(out, '\x1b') {
			t.Error("colour in a file")
		}
		m := accepted.FindStringSubmatch(out)
		if m == nil {
			t.Fatalf("no books in\n%s", out)
		}
		n, _ := strconv.Atoi(m[1])
		return n
	}
	first := day()
	if second := day(); second != 2*first {
		t.Errorf("the first day had %d webhooks, both together %d", first, second)
	}
}
