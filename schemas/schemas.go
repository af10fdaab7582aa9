// Package schemas embeds the published contracts: JSON Schemas, AsyncAPI,
// OpenAPI, and their examples.
package schemas
