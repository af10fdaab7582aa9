package devbroker

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

func TestAGroupThatDoesNotExistHasNoOffsets(t *testing.T) {
	b := start(t, t.TempDir())
	old := kversion.Stable()
	old.SetMaxKeyVersion(int16(kmsg.OffsetFetch), 7)
	// Version 8 asks for several groups at once.
	for topic, opts := range map[string][]kgo.Opt{"now": nil, "old": {kgo.MaxVersions(old)}} {
		adm := kadm.NewClient(client(t, b, opts...))
		if _, err := adm.CreateTopic(t.Context(), 2, -1, nil, topic); err != nil {
			t.Fatal(err)
		}
		group := "group-" + topic
		at := func() (offset int64) {
			t.Helper()
			got, err := adm.FetchOffsetsForTopics(t.Context(), group, topic)
			if err == nil {
				err = got.Error()
			}
			if err != nil {
				t.Fatalf("%s: %v", topic, err)
			}
			o, ok := got.Lookup(topic, 1)
			if !ok {
				t.Fatalf("%s: no answer for the partition", topic)
			}
			return o.At
		}
		if got := at(); got != -1 {
			t.Errorf("%s: a group that does not exist is at %d", topic, got)
		}
		var commit kadm.Offsets
		commit.AddOffset(topic, 1, 0, -1)
		if err := adm.CommitAllOffsets(t.Context(), group, commit); err != nil {
			t.Fatal(err)
		}
		if got := at(); got != 0 {
			t.Errorf("%s: it committed 0 and is at %d", topic, got)
		}
	}
}
