package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// EnsureOptions say how missing topics are made.
type EnsureOptions struct {
	// Replication is the replication factor; with 3 or more, writes need two
	// in-sync replicas (min.insync.replicas=2).
	Replication int16 `env:"SLUICE_TOPIC_REPLICATION" envDefault:"1" help:"copies of each record; with 3 or more, two must be in sync"`
	// Dev is for the development broker, which loses data in compaction and in
	// time retention (measured 2026-11: kills during compaction lost acknowledged
	// keys; a partition emptied by retention began again at offset 0). Topics are
	// kept by size there and nothing is compacted.
	Dev bool
}

// devBytes is how much of a partition the development broker keeps.
const devBytes = "1073741824" // 1 GiB

// fixed are the settings that decide what Sluice's topics mean, and what they
// must be where a topic's specification says nothing ("" is anything). Every
// other setting of a topic that exists is the operator's.
var fixed = map[string]string{"cleanup.policy": "delete", "message.timestamp.type": ""}

// settings are the topic settings Sluice creates spec with.
func (o EnsureOptions) settings(spec TopicSpec) map[string]string {
	set := maps.Clone(spec.Config)
	if o.Dev {
		set["retention.ms"], set["retention.bytes"] = "-1", devBytes
		delete(set, "cleanup.policy")
	}
	if o.Replication >= 3 {
		set["min.insync.replicas"] = "2"
	}
	return set
}

// EnsureTopics creates those of Sluice's topics that are missing and checks the
// others; it returns the full names of the created ones, once the brokers know them
// all. Several programs may
// call it at once. A topic whose clean-up policy, timestamp type or maximal
// message size does not fit is an error that names all that is wrong; its number
// of partitions is the operator's choice.
func EnsureTopics(ctx context.Context, cfg Config, log *slog.Logger, opts EnsureOptions) (created []string, err error) {
	cl, err := cfg.open(ctx, "admin", log)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	var problems []error
	existing := map[string]map[string]string{}
	for _, spec := range Topics {
		name, set := cfg.Topic(spec.Name), opts.settings(spec)
		pointers := make(map[string]*string, len(set))
		for k, v := range set {
			pointers[k] = &v
		}
		_, err := adm.CreateTopic(ctx, spec.Partitions, max(opts.Replication, 1), pointers, name)
		switch {
		case err == nil:
			created = append(created, name)
		case errors.Is(err, kerr.TopicAlreadyExists):
			existing[name] = set
		default:
			problems = append(problems, fmt.Errorf("create topic %s: %w", name, err))
		}
	}
	if err := await(ctx, adm, append(slices.Collect(maps.Keys(existing)), created...)); err != nil {
		return created, errors.Join(append(problems, err)...)
	}
	for name, set := range existing {
		problems = append(problems, checkTopic(ctx, adm, name, set))
	}
	return created, errors.Join(problems...)
}

// ErrNoTopic: a topic of Sluice's is missing.
var ErrNoTopic = errors.New("is not there yet; run `sluice migrate`")

// CheckTopics says everything that EnsureTopics would do or refuse, and does
// nothing.
func CheckTopics(ctx context.Context, cfg Config, log *slog.Logger, opts EnsureOptions) error {
	cl, err := cfg.open(ctx, "admin", log)
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	there, err := adm.ListTopics(ctx)
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	var problems []error
	for _, spec := range Topics {
		name := cfg.Topic(spec.Name)
		if there.Has(name) {
			problems = append(problems, checkTopic(ctx, adm, name, opts.settings(spec)))
		} else {
			problems = append(problems, fmt.Errorf("topic %s %w", name, ErrNoTopic))
		}
	}
	return errors.Join(problems...)
}

// await waits until the brokers know the topics and their leaders: a topic is made
// by the controller, and a busy broker hears of it some 100 ms later.
func await(ctx context.Context, adm *kadm.Client, names []string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for len(names) > 0 {
		err := leaders(ctx, adm, names...)
		if err == nil {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for new topics: %w", err)
		case <-tick.C:
		}
	}
	return nil
}

// leaders is nil if each topic is there and each of its partitions has a leader.
func leaders(ctx context.Context, adm *kadm.Client, names ...string) error {
	topics, err := adm.ListTopics(ctx, names...)
	if err != nil {
		return fmt.Errorf("reach Kafka: %w", err)
	}
	for _, name := range names {
		t := topics[name]
		if t.Err != nil {
			return fmt.Errorf("find topic %s: %w", name, t.Err)
		}
		for _, part := range t.Partitions.Sorted() {
			if part.Err != nil || part.Leader < 0 {
				return fmt.Errorf("partition %d of topic %s has no leader", part.Partition, name)
			}
		}
	}
	return nil
}

// checkTopic compares a topic that exists with the settings it should have.
func checkTopic(ctx context.Context, adm *kadm.Client, name string, want map[string]string) error {
	got, err := topicConfig(ctx, adm, name)
	if err != nil {
		return err
	}
	var problems []error
	for key, otherwise := range fixed {
		w := cmp.Or(want[key], otherwise)
		if g := got[key]; w != "" && g != "" && g != w {
			problems = append(problems, fmt.Errorf("topic %s has %s=%s; it must be %s", name, key, g, w))
		}
	}
	if want[maxMessageKey] != "" {
		problems = append(problems, checkMaxMessage(name, got))
	}
	return errors.Join(problems...)
}

// checkMaxMessage says whether every record that ingress accepts fits the topic.
func checkMaxMessage(name string, got map[string]string) error {
	n, _ := strconv.Atoi(got[maxMessageKey]) // not told is 0: nothing to hold against it
	if n == 0 || n >= MaxMessage {
		return nil
	}
	return fmt.Errorf("topic %s has %s=%d; webhook bodies of %d bytes need %d: raise it", name, maxMessageKey, n, MaxBody, MaxMessage)
}

// topicConfig reads a topic's settings, in Kafka's own names.
func topicConfig(ctx context.Context, adm *kadm.Client, name string) (map[string]string, error) {
	rs, err := adm.DescribeTopicConfigs(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("read settings of topic %s: %w", name, err)
	}
	r, err := rs.On(name, nil)
	if err == nil {
		err = r.Err
	}
	if err != nil {
		return nil, fmt.Errorf("read settings of topic %s: %w", name, err)
	}
	got := map[string]string{}
	for _, c := range r.Configs {
		if c.Value != nil {
			got[c.Key] = *c.Value
		}
	}
	return got, nil
}
