package harness

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
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

// lawful holds every answer of ingress, and of the merchant about orders, against
// the published contract on its way to the test.
type lawful struct {
	*Deployment
	http.RoundTripper
}

// CloseIdleConnections is for http.Client.CloseIdleConnections.
func (l lawful) CloseIdleConnections() {
	l.RoundTripper.(interface{ CloseIdleConnections() }).CloseIdleConnections()
}

// RoundTrip implements http.RoundTripper.
func (l lawful) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := l.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body, broken := io.ReadAll(res.Body)
	if broken != nil { // no answer, as far as a test can tell
		_ = res.Body.Close()
		return nil, broken
	}
	_ = res.Body.Close()
	res.Body = io.NopCloser(bytes.NewReader(body))
	switch {
	case strings.HasPrefix(req.URL.Path, "/v1/orders/"):
		err = l.Contract().Answer(req.Method+" /v1/orders/{order_id}", res.StatusCode, res.Header, body)
	case strings.HasPrefix(req.URL.Path, "/webhooks/") && res.Header.Get("Content-Type") != "application/json; charset=utf-8": // Payme's and Click's
		err = l.Contract().IngressAnswer(res.StatusCode, res.Header, body)
	}
	if err != nil {
		l.T.Errorf("%s %s was answered against the contract: %v", req.Method, req.URL.Path, err)
	}
	return res, nil
}

// Place is where a record lies in a topic.
type Place struct {
	Partition int32
	Offset    int64
}
