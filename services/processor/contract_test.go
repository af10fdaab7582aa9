package processor

import (
	"slices"
	"strings"
	"testing"

	"sluice/pkg/contract/validate"
	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
	"sluice/schemas"
)

func TestADeadLetterIsThatOfTheContract(t *testing.T) {
	v, err := validate.New(schemas.FS)
	if err != nil {
		t.Fatal(err)
	}
	var description string
	documented := []string{}
	for _, f := range v.Fields("webhooks.dead-letters.headers.v1") {
		if documented = append(documented, f.Path); f.Path == "sluice_dead_reason" {
			description = f.Description
		}
	}
	for _, reason := range []string{deadHeaders, deadEndpoint, deadBody, deadNoOrder, deadRefused} {
		r := (&Processor{}).deadLetterRecord(postgres.DeadLetter{Topic: "webhooks.raw.v1", Partition: 3, Offset: 7, Reason: reason,
			Detail: strings.Repeat("é", maxDetail/2), Headers: []event.Header{{Name: "broken", Value: []byte("\xff")}, {Name: "broken"}}})
		if err := v.Record(kafka.DeadLetters, r.Key, r.Value, r.Headers); err != nil {
			t.Errorf("%s: %v", reason, err)
		}
		if !strings.Contains(description, reason) {
			t.Errorf("the contract does not name the reason %s", reason)
		}
		written := []string{"sluice_dead_body"} // where the value does not fit
		for _, h := range r.Headers[2:] {
			written = append(written, h.Name)
		}
		if slices.Sort(written); !slices.Equal(written, documented) {
			t.Errorf("the contract has the headers %v, the program %v", documented, written)
		}
	}
}
