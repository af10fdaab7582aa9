// Package contract reads the published contract of schemas/: the JSON Schemas, the
// topics of asyncapi.yaml and the operations of openapi.yaml, each into a form that
// tests hold the program against, and people see rendered. It also says which
// changes break a released contract.
package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"sluice/schemas"
)

// schemaSuffix ends the names of JSON Schemas.
const schemaSuffix = ".schema.json"

// Contract is one version of the contract.
type Contract struct {
	// Version is that of both documents.
	Version string
	// Schemas by name, for example order.status_changed.v1.
	Schemas map[string]Schema
	// Topics are sorted by address, Operations by path and method.
	Topics     []Topic
	Operations []Operation
	// Tokens are the ways in which callers show who they are, by name, as OpenAPI has
	// them (securitySchemes).
	Tokens map[string]any
	// About is what the documents say of themselves.
	About struct{ Topics, HTTP string }
	// AsyncAPI, OpenAPI and PaymeClick are the documents, as JSON would have them
	// (numbers are json.Number).
	AsyncAPI, OpenAPI, PaymeClick any
}

// Schema is one JSON Schema.
type Schema struct {
	// Name is the file's name without .schema.json.
	Name string
	// ID is its $id, by which others refer to it.
	ID string
	// Document is its content (numbers are json.Number), Text its bytes.
	Document map[string]any
	Text     []byte
}

// Read reads the contract that lies in a directory. An error names the file.
func Read(dir fs.FS) (*Contract, error) {
	c := &Contract{Schemas: map[string]Schema{}}
	files, err := fs.Glob(dir, "*"+schemaSuffix)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		s := Schema{Name: strings.TrimSuffix(file, schemaSuffix)}
		if s.Text, err = fs.ReadFile(dir, file); err != nil {
			return nil, err
		}
		if err := decode(s.Text, &s.Document); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		s.ID, _ = s.Document["$id"].(string)
		c.Schemas[s.Name] = s
	}
	var versions [2]string
	if c.AsyncAPI, err = document(dir, schemas.AsyncAPI); err != nil {
		return nil, err
	}
	if versions[0], err = c.readTopics(); err != nil {
		return nil, fmt.Errorf("read %s: %w", schemas.AsyncAPI, err)
	}
	if c.OpenAPI, err = document(dir, schemas.OpenAPI); err != nil {
		return nil, err
	}
	if versions[1], err = c.readOperations(); err != nil {
		return nil, fmt.Errorf("read %s: %w", schemas.OpenAPI, err)
	}
	if c.PaymeClick, err = document(dir, schemas.PaymeClick); err != nil {
		return nil, err
	}
	if c.Version = versions[0]; versions[0] != versions[1] {
		return nil, fmt.Errorf("the contract has two versions: %s and %s", versions[0], versions[1])
	}
	return c, nil
}

// ByID is the schema of that $id.
func (c *Contract) ByID(id string) (Schema, bool) {
	for _, s := range c.Schemas {
		if s.ID == id {
			return s, true
		}
	}
	return Schema{}, false
}

func document(dir fs.FS, name string) (any, error) {
	text, err := fs.ReadFile(dir, name)
	if err != nil {
		return nil, err
	}
	asJSON, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	var doc any
	if err := decode(asJSON, &doc); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return doc, nil
}

func decode(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(into)
}

// into is a document with every reference within itself resolved, as a Go value.
func into(doc, value any) error {
	whole, err := resolve(doc, doc, nil)
	if err != nil {
		return err
	}
	text, err := json.Marshal(whole)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, value)
}

// resolve puts what a reference "#/…" names into its place. References to other
// files stay.
func resolve(v, root any, path []string) (any, error) {
	switch v := v.(type) {
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok && strings.HasPrefix(ref, "#") {
			if slices.Contains(path, ref) {
				return nil, fmt.Errorf("%s refers to itself", ref)
			}
			to, err := at(root, ref)
			if err != nil {
				return nil, err
			}
			found, err := resolve(to, root, append(slices.Clone(path), ref))
			if said, ok := v["description"]; ok && err == nil { // it says more than what it refers to
				if members, ok := found.(map[string]any); ok {
					members["description"] = said
				}
			}
			return found, err
		}
		out := make(map[string]any, len(v))
		for name, member := range v {
			to, err := resolve(member, root, path)
			if err != nil {
				return nil, err
			}
			out[name] = to
		}
		return out, nil
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			to, err := resolve(item, root, path)
			if err != nil {
				return nil, err
			}
			out[i] = to
		}
		return out, nil
	}
	return v, nil
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// at is what a JSON pointer "#/a/b" names.
func at(root any, ref string) (any, error) {
	pointer := strings.TrimPrefix(ref, "#")
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if pointer == "" {
			break
		}
		members, _ := root.(map[string]any)
		next, ok := members[unescape.Replace(part)]
		if !ok {
			return nil, fmt.Errorf("%s leads nowhere", ref)
		}
		root = next
	}
	return root, nil
}

// schemaName is the schema that a document refers to by {"$ref": "./name.schema.json"}.
func schemaName(ref string) string { return strings.TrimSuffix(path.Base(ref), schemaSuffix) }
