package devbroker

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, dir string) *Broker {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	b, err := New(ctx, Config{DataDir: dir}, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func client(t *testing.T, b *Broker, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.Addr()), kgo.DisableClientMetrics(), kgo.RecordPartitioner(kgo.ManualPartitioner())}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func produce(t *testing.T, cl *kgo.Client, topic string, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		r := &kgo.Record{Topic: topic, Partition: 0, Value: []byte(strconv.Itoa(i))}
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatalf("produce %d: %v", i, err)
		}
	}
}

func TestRecordsAndCommittedOffsetsSurviveARestart(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir)
	cl := client(t, b)
	adm := kadm.NewClient(cl)
	if _, err := adm.CreateTopic(t.Context(), 1, -1, nil, "topic"); err != nil {
		t.Fatal(err)
	}
	produce(t, cl, "topic", 0, 10)
	var at kadm.Offsets
	at.AddOffset("topic", 0, 4, -1)
	if err := adm.CommitAllOffsets(t.Context(), "group", at); err != nil {
		t.Fatal(err)
	}
	cl.Close()
	b.Close()

	b = start(t, dir)
	cl = client(t, b, kgo.ConsumerGroup("group"), kgo.ConsumeTopics("topic"))
	produce(t, cl, "topic", 10, 12)
	for want := 4; want < 12; {
		cl.PollFetches(t.Context()).EachRecord(func(r *kgo.Record) {
			if string(r.Value) != strconv.Itoa(want) {
				t.Errorf("record at offset %d is %s, want %d", r.Offset, r.Value, want)
			}
			want++
		})
		if t.Failed() || t.Context().Err() != nil {
			return
		}
	}
}

func TestASecondBrokerIsRefusedTheDataDirectoryInUse(t *testing.T) {
	dir := t.TempDir()
	start(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := New(ctx, Config{DataDir: dir}, slog.New(slog.DiscardHandler)); err == nil {
		t.Fatal("two brokers share one data directory")
	}
}

// A machine that loses power can keep a group's commit and lose the records.
func TestAGroupBeyondTheEndIsSetBackAndMissesNothingThatFollows(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir)
	cl := client(t, b)
	adm := kadm.NewClient(cl)
	if _, err := adm.CreateTopic(t.Context(), 2, -1, nil, "topic"); err != nil {
		t.Fatal(err)
	}
	produce(t, cl, "topic", 0, 3)
	var at kadm.Offsets
	at.AddOffset("topic", 0, 50, -1)
	at.AddOffset("topic", 1, 0, -1)
	if err := adm.CommitAllOffsets(t.Context(), "group", at); err != nil {
		t.Fatal(err)
	}
	b.Close()

	adm = kadm.NewClient(client(t, start(t, dir)))
	got, err := adm.FetchOffsets(t.Context(), "group")
	if err != nil {
		t.Fatal(err)
	}
	ends, err := adm.ListEndOffsets(t.Context(), "topic")
	if err != nil {
		t.Fatal(err)
	}
	for p := range int32(2) {
		c, _ := got.Lookup("topic", p)
		e, _ := ends.Lookup("topic", p)
		if c.At > e.Offset {
			t.Errorf("partition %d: committed offset %d is beyond the end %d", p, c.At, e.Offset)
		}
	}
	if c, _ := got.Lookup("topic", 0); c.At == 0 {
		t.Error("the group was set to the start, not to the end")
	}
}

func TestTopicsNeverCompactNorKeepByTimeWhateverAClientAsksFor(t *testing.T) {
	adm := kadm.NewClient(client(t, start(t, t.TempDir())))
	text := func(s string) *string { return &s }
	asked := map[string]*string{"cleanup.policy": text("compact"), "retention.ms": text("1"), "retention.bytes": text("1")}
	if _, err := adm.CreateTopic(t.Context(), 1, -1, asked, "topic"); err != nil {
		t.Fatal(err)
	}
	check := func(after string) {
		t.Helper()
		configs, err := adm.DescribeTopicConfigs(t.Context(), "topic")
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, c := range configs[0].Configs {
			got[c.Key] = c.MaybeValue()
		}
		want := map[string]string{"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": strconv.Itoa(minRetentionBytes)}
		for k, v := range want {
			if got[k] != v {
				t.Errorf("%s: %s = %q, want %q", after, k, got[k], v)
			}
		}
	}
	check("create")
	alter := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "cleanup.policy", Value: text("compact")}, {Op: kadm.SetConfig, Name: "retention.ms", Value: text("1")}}
	if _, err := adm.AlterTopicConfigs(t.Context(), alter, "topic"); err != nil {
		t.Fatal(err)
	}
	check("incremental alter")
	full := []kadm.AlterConfig{}
	for k, v := range asked {
		full = append(full, kadm.AlterConfig{Name: k, Value: v})
	}
	if _, err := adm.AlterTopicConfigsState(t.Context(), full, "topic"); err != nil {
		t.Fatal(err)
	}
	check("alter")
}

func TestDeletingRecordsIsRefused(t *testing.T) {
	cl := client(t, start(t, t.TempDir()))
	adm := kadm.NewClient(cl)
	if _, err := adm.CreateTopic(t.Context(), 1, -1, nil, "topic"); err != nil {
		t.Fatal(err)
	}
	produce(t, cl, "topic", 0, 2)
	var to kadm.Offsets
	to.AddOffset("topic", 0, 2, -1)
	got, err := adm.DeleteRecords(t.Context(), to)
	if err == nil {
		err = got.Error()
	}
	if err == nil {
		t.Fatal("records were deleted")
	}
	starts, err := adm.ListStartOffsets(t.Context(), "topic")
	if err != nil {
		t.Fatal(err)
	}
	if o, _ := starts.Lookup("topic", 0); o.Offset != 0 {
		t.Errorf("the partition starts at %d, want 0", o.Offset)
	}
}

func TestRunKeepsServingUntilItIsTold(t *testing.T) {
	b := start(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	if err := client(t, b).Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := dialErr(b); err == nil {
		t.Error("the broker still listens after Run ended")
	}
}

func dialErr(b *Broker) error {
	c, err := b.guard.dial()
	if err == nil {
		_ = c.Close()
		return nil
	}
	return fmt.Errorf("dial: %w", err)
}
