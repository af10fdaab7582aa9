package harness

import (
	"slices"
	"sync"

	"sluice/pkg/contract/validate"
	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/schemas"
)

var published = sync.OnceValues(func() (*validate.Validator, error) { return validate.New(schemas.FS) })

// Contract is the published contract.
func (d *Deployment) Contract() *validate.Validator {
	d.T.Helper()
	v, err := published()
	if err != nil {
		d.T.Fatal(err)
	}
	return v
}

// Lawful holds every record on every topic of the deployment against the published
// contract. foreign are offsets in the raw topic that the test wrote itself, and no
// program of ours would.
func (d *Deployment) Lawful(foreign ...Place) {
	d.T.Helper()
	v := d.Contract()
	for _, topic := range kafka.Topics {
		for _, r := range d.Records(topic.Name) {
			if topic.Name == kafka.Raw && slices.Contains(foreign, Place{r.Partition, r.Offset}) {
				continue
			}
			headers := make([]event.Header, len(r.Headers))
			for i, h := range r.Headers {
				headers[i] = event.Header{Name: h.Key, Value: h.Value}
			}
			if err := v.Record(topic.Name, r.Key, r.Value, headers); err != nil {
				d.T.Errorf("the record at %s/%d/%d breaks the contract: %v", topic.Name, r.Partition, r.Offset, err)
			}
		}
	}
}

// Place is where a record lies in a topic.
type Place struct {
	Partition int32
	Offset    int64
}
