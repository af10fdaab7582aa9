package kafka

import "testing"

func TestOnTheDevelopmentBrokerNothingIsCompactedOrKeptByTime(t *testing.T) {
	for _, spec := range Topics {
		set := EnsureOptions{Dev: true}.settings(spec)
		if set["cleanup.policy"] != "" || set["retention.ms"] != "-1" || set["retention.bytes"] == "" {
			t.Errorf("%s: %v", spec.Name, set)
		}
	}
}

func TestThreeReplicasMeanThatTwoMustHaveEachRecord(t *testing.T) {
	for replication, want := range map[int16]string{1: "", 2: "", 3: "2"} {
		for _, spec := range Topics {
			if got := (EnsureOptions{Replication: replication}).settings(spec)["min.insync.replicas"]; got != want {
				t.Errorf("%s, %d replicas: min.insync.replicas %q", spec.Name, replication, got)
			}
			if spec.Config["min.insync.replicas"] != "" {
				t.Error("the specification itself was changed")
			}
		}
	}
}
