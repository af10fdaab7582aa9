// Package status is the message on orders.status.v1 and orders.latest.v1: one
// change of one order's status, as downstream teams read it. It is pure: no I/O,
// no clock, no logger. The contract is schemas/order.status_changed.v1.schema.json.
package status

import (
	"strconv"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/order"
)

// What every message of this format says in its CloudEvents attributes.
const (
	// Source is the CloudEvents source of everything that a deployment says; a row
	// published again must be the same bytes, so it is no setting.
	Source = "sluice"
	// Type is what happened.
	Type = "order.status_changed"
	// Schema names the JSON Schema that a message obeys.
	Schema = "urn:sluice:schema:order.status_changed:v1"
	// ContentType is the record header content-type: CloudEvents structured JSON.
	ContentType = "application/cloudevents+json"
	// Format is the number of this format; a row that was written for it is
	// encoded in it for ever.
	Format = 1
)

// Names of the record headers.
const (
	HeaderContentType = "content-type"
	HeaderVersion     = "sluice_version"
)

// Message says that an order went from one status to another. It is a pure
// function of one row of the order's history.
type Message struct {
	// Source is the deployment that speaks (CloudEvents source), not empty.
	Source string
	// OrderID is the shop's order reference, and the record's key.
	OrderID string
	// Version counts the order's messages: 1, 2, 3, without gaps.
	Version int64
	// Previous is StatusNone in version 1. It equals Status where only money or
	// the dispute changed.
	Previous, Status order.Status
	// Amount is what the order is worth, Paid what was taken, Refunded what was
	// given back: minor units of Currency (ISO 4217).
	Amount, Paid, Refunded int64
	Currency               string
	Dispute                order.Dispute
	// Cause is the event that brought the change.
	Cause Cause
	// OccurredAt is the provider's time of the cause, to the millisecond; zero if
	// the provider stated none.
	OccurredAt time.Time
	// ChangedAt is when the change was decided, to the microsecond.
	ChangedAt time.Time
	// Correction: a late event made the message before untrue. Previous and Status
	// need not be joined by the state machine.
	Correction bool
}

// Cause names an event. (Source, EventID) is unique.
type Cause struct {
	Source, EventID string
}

// ID is the message's own name, the same however often it is published:
// "<order id>.<version>". The version is what follows the last dot, so that order
// ids may contain dots.
func (m Message) ID() string {
	return m.OrderID + "." + strconv.FormatInt(m.Version, 10)
}

// Key is the record's key: all messages of one order are in one partition.
func (m Message) Key() []byte { return []byte(m.OrderID) }

// Headers are the record's headers: the content type that CloudEvents asks for,
// and the version, so that a consumer can drop repeats without reading the value.
func (m Message) Headers() []event.Header {
	return []event.Header{
		{Name: HeaderContentType, Value: []byte(ContentType)},
		{Name: HeaderVersion, Value: strconv.AppendInt(nil, m.Version, 10)},
	}
}
