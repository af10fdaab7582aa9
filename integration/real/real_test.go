package real

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Both kinds where both are possible: a crash test has to mean the same on each.
func kinds(t *testing.T, run func(t *testing.T, kind Kind)) {
	for _, kind := range []Kind{Docker, Native} {
		t.Run(string(kind), func(t *testing.T) { run(t, kind) })
	}
}

func must(t *testing.T, doing string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", doing, err)
	}
}

func TestKafkaComesBackAfterKillWithItsRecords(t *testing.T) {
	kinds(t, func(t *testing.T, kind Kind) {
		ctx := t.Context()
		kafka, err := StartKafka(ctx, KafkaOptions{Kind: kind, HeapMB: 512})
		if err != nil && kindIsMissing(kind, err) {
			t.Skip(err)
		}
		must(t, "start", err)
		t.Cleanup(func() { must(t, "close", kafka.Close()) })
		client, err := kgo.NewClient(kgo.SeedBrokers(kafka.Brokers()), kgo.ConsumeTopics("words"),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.UnknownTopicRetries(1))
		must(t, "client", err)
		defer client.Close()

		admin := kadm.NewClient(client)
		if err := client.ProduceSync(ctx, &kgo.Record{Topic: "unknown", Value: []byte("x")}).FirstErr(); err == nil {
			t.Fatal("a topic that nobody created was made")
		}
		_, err = admin.CreateTopic(ctx, 1, 1, nil, "words")
		must(t, "create topic", err)
		must(t, "produce", client.ProduceSync(ctx, &kgo.Record{Topic: "words", Value: []byte("one")}).FirstErr())

		must(t, "pause", kafka.Pause(ctx))
		if err := pingFor(ctx, 2*time.Second, func(ctx context.Context) error { return PingKafka(ctx, kafka.Brokers()) }); err == nil {
			t.Fatal("a paused broker answers")
		}
		must(t, "unpause", kafka.Unpause(ctx))
		must(t, "kill", kafka.Kill(ctx))
		must(t, "restart", kafka.Restart(ctx))
		must(t, "produce again", client.ProduceSync(ctx, &kgo.Record{Topic: "words", Value: []byte("two")}).FirstErr())

		var got []string
		for len(got) < 2 {
			fetches := client.PollFetches(ctx)
			must(t, "fetch", fetches.Err())
			fetches.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
		}
		if fmt.Sprint(got) != "[one two]" {
			t.Fatalf("records after the restart: %v", got)
		}
		must(t, "restart of a running one", kafka.Restart(ctx))
	})
}

func TestPostgresComesBackAfterKillWithItsRows(t *testing.T) {
	kinds(t, func(t *testing.T, kind Kind) {
		ctx := t.Context()
		server, err := StartPostgres(ctx, PostgresOptions{Kind: kind})
		if err != nil && kindIsMissing(kind, err) {
			t.Skip(err)
		}
		must(t, "start", err)
		t.Cleanup(func() { must(t, "close", server.Close()) })
		query := func(sql string) (answer string) {
			conn, err := pgx.Connect(ctx, server.URL())
			must(t, "connect", err)
			defer func() { _ = conn.Close(ctx) }()
			must(t, sql, conn.QueryRow(ctx, sql).Scan(&answer))
			return answer
		}
		for name, want := range map[string]string{"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "max_connections": "300"} {
			if got := query("show " + name); got != want {
				t.Errorf("%s is %s, want %s", name, got, want)
			}
		}
		idle, err := pgx.Connect(ctx, server.URL())
		must(t, "connect", err)
		_, err = idle.Exec(ctx, "create table words as select 'one' as word")
		must(t, "create table", err)

		must(t, "pause", server.Pause(ctx))
		if err := pingFor(ctx, 2*time.Second, func(ctx context.Context) error { return PingPostgres(ctx, server.URL()) }); err == nil {
			t.Fatal("a paused server answers")
		}
		must(t, "unpause", server.Unpause(ctx))
		must(t, "kill", server.Kill(ctx))
		if idle.Ping(ctx) == nil {
			t.Fatal("a connection survived the kill")
		}
		must(t, "restart", server.Restart(ctx))
		if got := query("select word from words"); got != "one" {
			t.Fatalf("row after the restart: %q", got)
		}
		// A client that stays must not hold up a stop.
		busy, err := pgx.Connect(ctx, server.URL())
		must(t, "connect", err)
		defer func() { _ = busy.Close(ctx) }()
		must(t, "restart of a running one", server.Restart(ctx))
	})
}

// kindIsMissing: this machine lacks Docker, or Java, or the programs.
func kindIsMissing(kind Kind, _ error) bool {
	if kind == Docker {
		_, err := connect()
		return err != nil
	}
	_, noKafka := kafkaHome()
	_, noPostgres := postgresPrograms()
	return noKafka != nil || noPostgres != nil
}

func pingFor(ctx context.Context, limit time.Duration, ping func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return ping(ctx)
}
