package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"sluice/pkg/kafka"
)

func TestRetentionShowsEveryHorizonAndWhatIsOnDisk(t *testing.T) {
	m := newMourned(t)
	m.configure(withEndpoints)
	m.produce(m.paid("evt_1"))
	m.process()
	m.says("retention", `raw topic +━+╌+ +30 days, at most 37 days`, `repeats recognised +━{44} +90 days`, `repeats of shop +━+ +3 days`, `journal of bodies +off`,
		`order transitions +━{48}→ +for ever`, `✓ endpoint shop: stripe may repeat for 3 days, and the topic keeps its records for up to 37 days`,
		`raw topic +\d{4}-.* +1 records`, `processed events +\d{4}-.* KiB +\d{4}_\d\d +\d{4}-`, `dead letters`)
	out, err := sluice(t, "retention", "--json")
	var found retained
	if jsonErr := json.Unmarshal([]byte(out), &found); err != nil || jsonErr != nil {
		t.Fatalf("%v, %v\n%s", err, jsonErr, out)
	}
	if found.RawTopic.Records != 1 || time.Since(*found.RawTopic.Oldest) > time.Minute || len(found.Tables) != 6 || len(found.Missing) != 0 || len(found.Horizons) != 8 {
		t.Errorf("%+v", found)
	}
	m.says("config check processor", `✓ processor`)
	t.Setenv("SLUICE_WINDOW", "39")
	m.says("retention", `! endpoint shop: stripe may repeat for 3 days`)
	m.says("config check processor --connect", `✓ retention`, `may come after it was forgotten`)
	t.Setenv("SLUICE_WINDOW", "2")
	m.says("config check processor", `shop: stripe may repeat for 3 days.*SLUICE_WINDOW to 3`)
	m.says("retention", `✗ topic .* keeps records for 30\.0 days`, `→ a replay would reach`, `a processor would refuse to start`)
	m.says("config check processor --connect", `✗ retention`, `30\.0 days`)
	t.Setenv("SLUICE_WINDOW", "90")
	for _, topic := range []string{kafka.Raw, kafka.Status} {
		short := "3600000"
		if _, err := m.admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: "retention.ms", Value: &short}}, m.kafka.Topic(topic)); err != nil {
			t.Fatal(err)
		}
	}
	deadline := time.After(20 * time.Second)
	for tick := time.NewTicker(100 * time.Millisecond); ; {
		if out, _ := sluice(t, "retention"); strings.Contains(out, "stand still for 1 hour before it misses") && strings.Contains(out, "stand still for 1 hour before a record is lost") {
			break
		}
		select {
		case <-deadline:
			t.Fatal("what topics keep for an hour is not warned of")
		case <-tick.C:
		}
	}
	t.Setenv("SLUICE_ENDPOINTS", "nowhere.yaml")
	m.says("retention", `not looked at: how long providers repeat`)
}
