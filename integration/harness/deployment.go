package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/integration/proxy"
	"sluice/pkg/kafka"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/status"
	"sluice/pkg/testkit"
)

const endpoints = `endpoints:
  - name: stripe
    provider: stripe
    secrets: [env:STRIPE_SECRET]
  - name: standard
    provider: standard_webhooks
    secrets: [env:STANDARD_SECRET]
`

// Deployment is a whole Sluice of one test: topics, a database and a proxy of its
// own, and processes of the built program.
type Deployment struct {
	// Declares is what every process gets beside Env, roles and commands alike.
	Declares []string

	T        testing.TB
	Kafka    kafka.Config // straight to the brokers
	Database postgres.Config
	Proxy    *proxy.Proxy // what the processes take for their broker; nil: none is between
	HTTP     *http.Client

	brokers   string
	endpoints string
	client    *kgo.Client
	db        *pgx.Conn
}

// New makes a deployment without processes, with a proxy before its broker.
// partitions, if positive, is the number of raw partitions.
func New(t testing.TB, partitions int32) *Deployment {
	t.Helper()
	d := Direct(t, testkit.Kafka(t, partitions))
	var err error
	if d.Proxy, err = proxy.Start(d.Kafka.Brokers[0]); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Proxy.Close)
	d.brokers = d.Proxy.Addr()
	d.HTTP.Transport = lawful{d, d.HTTP.Transport}
	return d
}

// Direct makes a deployment whose processes speak to the brokers themselves, for
// measuring. The topics of cfg exist.
func Direct(t testing.TB, cfg kafka.Config) *Deployment {
	t.Helper()
	d := &Deployment{T: t, Kafka: cfg, Database: testkit.Database(t), brokers: strings.Join(cfg.Brokers, ","),
		HTTP: &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 256}}}
	t.Cleanup(d.HTTP.CloseIdleConnections)
	var err error
	d.endpoints = filepath.Join(t.TempDir(), "endpoints.yaml")
	if err := os.WriteFile(d.endpoints, []byte(endpoints), 0o600); err != nil {
		t.Fatal(err)
	}
	d.client = testkit.Client(t, d.Kafka)
	if d.db, err = pgx.Connect(t.Context(), d.Database.URL); err != nil {
		t.Fatalf("reach the test database: %v", err)
	}
	t.Cleanup(func() { _ = d.db.Close(context.Background()) })
	return d
}

// Env is what every process of the deployment gets.
func (d *Deployment) Env() []string {
	return append([]string{
		"KAFKA_BROKERS=" + d.brokers, "KAFKA_TOPIC_PREFIX=" + d.Kafka.TopicPrefix, "DATABASE_URL=" + d.Database.URL,
		"SLUICE_ENDPOINTS=" + d.endpoints, "SLUICE_MODE=live", "STRIPE_SECRET=" + StripeSecret, "STANDARD_SECRET=" + StandardSecret,
		"SLUICE_INGRESS_UNREADY=0s", "SLUICE_RELAY_LEASE_TTL=2s",
	}, d.Declares...)
}

// Begin starts a role without waiting until it is ready.
func (d *Deployment) Begin(role string, env ...string) *Process {
	d.T.Helper()
	return d.BeginProgram(Program(d.T), role, env...)
}

// BeginProgram starts another program with what the role would get.
func (d *Deployment) BeginProgram(path, role string, env ...string) *Process {
	d.T.Helper()
	address, admin := FreeAddress(d.T), FreeAddress(d.T)
	env = slices.Concat(d.Env(), []string{"SLUICE_ADMIN_ADDRESS=" + admin, "SLUICE_" + strings.ToUpper(role) + "_ADDRESS=" + address}, env)
	p := StartProgram(d.T, path, env, role)
	p.Address, p.Admin = address, admin
	return p
}

// Start starts a role and waits until it is ready.
func (d *Deployment) Start(role string, env ...string) *Process {
	d.T.Helper()
	return d.Begin(role, env...).Ready()
}

// Register tells the merchant that order is worth amount.
func (d *Deployment) Register(merchant *Process, order string, amount int64) {
	d.T.Helper()
	status, body := d.Put(merchant, order, fmt.Sprintf(`{"amount":%d,"currency":"USD","reference":"cart"}`, amount))
	if status/100 != 2 {
		d.T.Fatalf("register order %s: %d %s", order, status, body)
	}
}

// Put sends a registration and returns the answer.
func (d *Deployment) Put(merchant *Process, order, body string) (int, string) {
	d.T.Helper()
	req, err := http.NewRequestWithContext(d.T.Context(), http.MethodPut, "http://"+merchant.Address+"/v1/orders/"+order, bytes.NewReader([]byte(body)))
	if err != nil {
		d.T.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := d.HTTP.Do(req)
	if err != nil {
		d.T.Fatalf("put order %s: %v", order, err)
	}
	defer func() { _ = res.Body.Close() }()
	answer, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(answer)
}

// Post sends a webhook and returns the answer's status, 0 if none came.
func (d *Deployment) Post(ingress *Process, w Webhook) int {
	d.T.Helper()
	status, _ := w.Post(d.T.Context(), d.HTTP, ingress.Address)
	return status
}

// Accept sends a webhook that must be taken.
func (d *Deployment) Accept(ingress *Process, w Webhook) {
	d.T.Helper()
	if status, err := w.Post(d.T.Context(), d.HTTP, ingress.Address); status != http.StatusOK {
		d.T.Fatalf("the webhook was answered %d: %v", status, err)
	}
}

// Count is the one number that query answers.
func (d *Deployment) Count(query string, args ...any) (n int64) {
	d.T.Helper()
	if err := d.db.QueryRow(d.T.Context(), query, args...).Scan(&n); err != nil {
		d.T.Fatalf("ask the database %q: %v", query, err)
	}
	return n
}

// Exec changes the database behind the program's back.
func (d *Deployment) Exec(statement string, args ...any) {
	d.T.Helper()
	if _, err := d.db.Exec(d.T.Context(), statement, args...); err != nil {
		d.T.Fatalf("tell the database %q: %v", statement, err)
	}
}

// Order is an order's status and version in the database; "" if it is unknown.
func (d *Deployment) Order(id string) (string, int64) {
	d.T.Helper()
	var s int16
	var version int64
	err := d.db.QueryRow(d.T.Context(), "SELECT status, version FROM orders WHERE order_id = $1", id).Scan(&s, &version)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", 0
	}
	if err != nil {
		d.T.Fatalf("read order %s: %v", id, err)
	}
	return order.Status(s).String(), version
}

// Becomes waits until the order has the status.
func (d *Deployment) Becomes(id, want string) {
	d.T.Helper()
	Eventually(d.T, "order "+id+" is "+want, 40*time.Second, func() error {
		if got, v := d.Order(id); got != want {
			return fmt.Errorf("it is %q (version %d)", got, v)
		}
		return nil
	})
}

// Records are all committed records of a topic now, oldest first within a partition.
func (d *Deployment) Records(topic string) (records []*kgo.Record) {
	d.T.Helper()
	ctx, cancel := context.WithTimeout(d.T.Context(), 30*time.Second)
	defer cancel()
	name := d.Kafka.Topic(topic)
	adm := kadm.NewClient(d.client)
	starts, err := adm.ListStartOffsets(ctx, name)
	if err != nil {
		d.T.Fatalf("read where topic %s begins: %v", name, err)
	}
	ends, err := adm.ListCommittedOffsets(ctx, name)
	if err != nil {
		d.T.Fatalf("read where topic %s ends: %v", name, err)
	}
	reader := testkit.Client(d.T, d.Kafka, kgo.ConsumeTopics(name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords()) // a partition may end with a marker
	defer reader.Close()
	left := map[int32]int64{}
	starts.Each(func(o kadm.ListedOffset) {
		if end, _ := ends.Lookup(name, o.Partition); end.Offset > o.Offset {
			left[o.Partition] = end.Offset
		}
	})
	for len(left) > 0 {
		fetches := reader.PollFetches(ctx)
		if ctx.Err() != nil {
			d.T.Fatalf("read topic %s: partitions not read to their end: %v", name, left)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				records = append(records, r)
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return records
}

// Messages are all status messages of an order on the topic, as they lie there.
func (d *Deployment) Messages(id string) (messages []status.Message) {
	d.T.Helper()
	for _, r := range d.Records(kafka.Status) {
		if string(r.Key) != id {
			continue
		}
		m, err := status.Decode(r.Value)
		if err != nil {
			d.T.Fatalf("read a status message of order %s: %v", id, err)
		}
		messages = append(messages, m)
	}
	return messages
}

// Committed is the group's committed offset of every raw partition, summed.
func (d *Deployment) Committed() (sum int64) {
	d.T.Helper()
	offsets, err := kadm.NewClient(d.client).FetchOffsets(d.T.Context(), d.Kafka.Topic(kafka.Group))
	if err != nil {
		d.T.Fatalf("read committed offsets: %v", err)
	}
	offsets.Each(func(o kadm.OffsetResponse) { sum += max(o.At, 0) })
	return sum
}

// Admin speaks to the brokers behind the program's back.
func (d *Deployment) Admin() *kadm.Client { return kadm.NewClient(d.client) }

// Client produces and consumes behind the program's back.
func (d *Deployment) Client() *kgo.Client { return d.client }
