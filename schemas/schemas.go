// Package schemas embeds the published contract: JSON Schemas, AsyncAPI, OpenAPI,
// and examples of messages that obey them and that do not. README.md beside it says
// what may change.
package schemas

import "embed"

// FS holds the contracts under the names they have in this directory.
//
//go:embed *.json *.yaml *.md examples
var FS embed.FS

// Names of the contracts in FS.
const (
	// OrderStatusChanged is the JSON Schema (2020-12) of the messages on
	// orders.status.v1.
	OrderStatusChanged = "order.status_changed.v1.schema.json"
	// AsyncAPI describes the topics, OpenAPI the HTTP side.
	AsyncAPI = "asyncapi.yaml"
	OpenAPI  = "openapi.yaml"
	// PaymeClick describes what Payme and Click are answered (OpenAPI).
	PaymeClick = "openapi.payme-click.yaml"
)
