package effect

import (
	"sluice/pkg/status"
)

// What every body says in its CloudEvents attributes.
const (
	// Type is what happened: something must be done outside.
	Type = "order.effect"
	// Schema names the JSON Schema that a body obeys.
	Schema = "urn:sluice:schema:order.effect:v1"
	// ContentType is that of the call: CloudEvents structured JSON.
	ContentType = "application/cloudevents+json"
)

// Body is what every attempt of an effect sends: a CloudEvent whose id is the key,
// with the step of the order that caused it as the status topic tells it, and the
// fact. It is built once, when the row is written, and kept.
func Body(name string, key Key, f Fact, change status.Message) []byte {
	b := make([]byte, 0, 1024)
	b = append(b, `{"specversion":"1.0","id":`...)
	b = status.AppendString(b, key.Text(name))
	b = append(b, `,"source":"`+status.Source+`","type":"`+Type+`","subject":`...)
	b = status.AppendString(b, change.OrderID)
	b = append(b, `,"time":`...)
	b = status.AppendTime(b, change.ChangedAt)
	b = append(b, `,"datacontenttype":"application/json","dataschema":"`+Schema+`","data":{"effect":`...)
	b = status.AppendString(b, name)
	b = append(b, `,"fact":{"source":`...)
	b = status.AppendString(b, f.Source)
	b = append(b, `,"kind":`...)
	b = status.AppendString(b, f.Kind.String())
	b = append(b, `,"payment":`...)
	b = status.AppendString(b, f.Payment)
	b = append(b, `,"object":`...)
	b = status.AppendString(b, f.Object)
	b = append(b, `},"change":`...)
	b = change.AppendData(b)
	return append(b, `}}`...)
}
