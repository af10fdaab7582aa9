package contract

import (
	"fmt"
	"slices"
	"strings"
)

// Operation is one HTTP operation as openapi.yaml has it: of a path, or of a webhook
// that Sluice calls.
type Operation struct {
	// Method is in upper case. Path is empty where Webhook is not.
	Method, Path, Webhook string
	ID, Tag               string
	Summary, Description  string
	Parameters            []Parameter
	// Open: it can be called without a token.
	Open    bool
	Request *Body // nil: none
	Answers []Answer
}

// Name is "PUT /v1/orders/{order_id}", or "POST webhook effect".
func (o Operation) Name() string {
	if o.Webhook != "" {
		return o.Method + " webhook " + o.Webhook
	}
	return o.Method + " " + o.Path
}

// Parameter is a part of a request: In is path, query or header.
type Parameter struct {
	Name        string `json:"name"`
	In          string `json:"in"`
	Required    bool   `json:"required"`
	Description string `json:"description"`
	Schema      map[string]any
}

// Body is what a request or an answer carries.
type Body struct {
	Description string
	Required    bool
	// Types are the media types, each with the schema that its content obeys, empty if
	// there is none.
	Types map[string]string
}

// Answer is one way in which an operation can be answered.
type Answer struct {
	// Status is 200, or 4XX for a class.
	Status, Description string
	Headers             []Parameter
	Body                Body
}

type openAPI struct {
	Info            struct{ Version, Description string }
	Paths, Webhooks map[string]map[string]any
	// Security is that of operations which say nothing of it.
	Security   []map[string]any
	Components struct{ SecuritySchemes map[string]any }
}

type openOperation struct {
	OperationID          string
	Tags                 []string
	Summary, Description string
	Security             *[]map[string]any
	Parameters           []Parameter
	RequestBody          *openBody
	Responses            map[string]struct {
		openBody
		Headers map[string]Parameter
	}
}

type openBody struct {
	Description string
	Required    bool
	Content     map[string]struct {
		Schema struct {
			Ref string `json:"$ref"`
		}
	}
}

func (b openBody) read() Body {
	out := Body{Description: b.Description, Required: b.Required, Types: map[string]string{}}
	for media, content := range b.Content {
		out.Types[media] = ""
		if content.Schema.Ref != "" {
			out.Types[media] = schemaName(content.Schema.Ref)
		}
	}
	return out
}

// methods are the members of a path that are operations.
var methods = []string{"get", "put", "post", "delete", "options", "head", "patch", "trace"}

func (c *Contract) readOperations() (version string, err error) {
	var doc openAPI
	if err := into(c.OpenAPI, &doc); err != nil {
		return "", err
	}
	c.About.HTTP, c.Tokens = doc.Info.Description, doc.Components.SecuritySchemes
	for at, members := range doc.Paths {
		if err := c.operations(Operation{Path: at}, members, doc.Security); err != nil {
			return "", err
		}
	}
	for name, members := range doc.Webhooks {
		if err := c.operations(Operation{Webhook: name}, members, doc.Security); err != nil {
			return "", err
		}
	}
	slices.SortFunc(c.Operations, func(a, b Operation) int {
		return strings.Compare(a.Webhook+a.Path+" "+a.Method, b.Webhook+b.Path+" "+b.Method)
	})
	return doc.Info.Version, nil
}

func (c *Contract) operations(o Operation, members map[string]any, security []map[string]any) error {
	var shared []Parameter
	if p, ok := members["parameters"]; ok {
		if err := into(p, &shared); err != nil {
			return err
		}
	}
	for _, method := range methods {
		member, ok := members[method]
		if !ok {
			continue
		}
		var op openOperation
		if err := into(member, &op); err != nil {
			return fmt.Errorf("%s %s: %w", method, o.Path, err)
		}
		one := o
		one.Method, one.ID, one.Summary, one.Description = strings.ToUpper(method), op.OperationID, op.Summary, op.Description
		one.Parameters = slices.Concat(shared, op.Parameters)
		security := security
		if op.Security != nil {
			security = *op.Security
		}
		one.Open = len(security) == 0 || slices.ContainsFunc(security, func(s map[string]any) bool { return len(s) == 0 })
		if len(op.Tags) > 0 {
			one.Tag = op.Tags[0]
		}
		if op.RequestBody != nil {
			b := op.RequestBody.read()
			one.Request = &b
		}
		for status, r := range op.Responses {
			a := Answer{Status: status, Description: r.Description, Body: r.read()}
			for name, h := range r.Headers {
				h.Name, h.In = name, "header"
				a.Headers = append(a.Headers, h)
			}
			slices.SortFunc(a.Headers, func(a, b Parameter) int { return strings.Compare(a.Name, b.Name) })
			one.Answers = append(one.Answers, a)
		}
		slices.SortFunc(one.Answers, func(a, b Answer) int { return strings.Compare(a.Status, b.Status) })
		for _, schema := range one.schemas() {
			if _, ok := c.Schemas[schema]; !ok {
				return fmt.Errorf("%s: there is no schema %s", one.Name(), schema)
			}
		}
		c.Operations = append(c.Operations, one)
	}
	return nil
}

// schemas are those that its bodies obey.
func (o Operation) schemas() (names []string) {
	bodies := []Body{}
	if o.Request != nil {
		bodies = append(bodies, *o.Request)
	}
	for _, a := range o.Answers {
		bodies = append(bodies, a.Body)
	}
	for _, b := range bodies {
		for _, name := range b.Types {
			if name != "" {
				names = append(names, name)
			}
		}
	}
	return names
}
