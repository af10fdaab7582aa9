// Package validate holds records, bodies and answers against the published contract.
package validate

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"sluice/pkg/contract"
	"sluice/pkg/event"
)

// Validator holds things against one contract. It is safe for concurrent use.
type Validator struct {
	*contract.Contract
	compiled map[string]*jsonschema.Schema
}

// New reads the contract in dir and compiles its schemas.
func New(dir fs.FS) (*Validator, error) {
	c, err := contract.Read(dir)
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	for _, s := range c.Schemas {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(s.Text))
		if err == nil {
			err = compiler.AddResource(s.ID, doc)
		}
		if err != nil {
			return nil, fmt.Errorf("read schema %s: %w", s.Name, err)
		}
	}
	v := &Validator{c, map[string]*jsonschema.Schema{}}
	for _, s := range c.Schemas {
		if v.compiled[s.Name], err = compiler.Compile(s.ID); err != nil {
			return nil, fmt.Errorf("compile schema %s: %w", s.Name, err)
		}
	}
	return v, nil
}

// JSON says what is wrong with a text by a schema.
func (v *Validator) JSON(schema string, text []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("%s: no JSON: %w", schema, err)
	}
	return v.value(schema, value)
}

func (v *Validator) value(schema string, value any) error {
	s, ok := v.compiled[schema]
	if !ok {
		return fmt.Errorf("there is no schema %s", schema)
	}
	return s.Validate(value)
}

// signatures are the headers that may occur several times.
const signatures = event.SignaturePrefix

// Record says what is wrong with a record of a topic (its address): it must be one of
// the topic's messages, by its headers, and then its key and value that message's.
func (v *Validator) Record(topic string, key, value []byte, headers []event.Header) error {
	i := slices.IndexFunc(v.Topics, func(t contract.Topic) bool { return t.Address == topic })
	if i < 0 {
		return fmt.Errorf("the contract knows no topic %s", topic)
	}
	object, err := headerObject(headers, topic == deadLetters)
	if err != nil {
		return err
	}
	var problems []error
	for _, m := range narrowestFirst(v.Topics[i].Messages) {
		if m.Headers != "" {
			if err := v.value(m.Headers, object); err != nil {
				problems = append(problems, err)
				continue
			}
		}
		return v.message(m, key, value, object)
	}
	return errors.Join(problems...)
}

// deadLetters is where headers are as somebody else wrote them.
const deadLetters = "webhooks.dead-letters.v1"

// narrowestFirst: a message whose payload has a schema says more than one of any.
func narrowestFirst(messages []contract.Message) []contract.Message {
	sorted := slices.Clone(messages)
	slices.SortStableFunc(sorted, func(a, b contract.Message) int {
		return strings.Compare(b.Payload, a.Payload)
	})
	return sorted
}

func (v *Validator) message(m contract.Message, key, value []byte, headers map[string]any) error {
	var payload any
	if m.Payload != "" {
		var err error
		if payload, err = jsonschema.UnmarshalJSON(bytes.NewReader(value)); err != nil {
			return fmt.Errorf("the value of a %s is no JSON: %w", m.Name, err)
		}
		if err := v.value(m.Payload, payload); err != nil {
			return err
		}
	}
	if len(key) < m.Key.MinLength {
		return fmt.Errorf("a %s has no key", m.Name)
	}
	if m.Key.Pattern != "" && !regexp.MustCompile(m.Key.Pattern).Match(key) {
		return fmt.Errorf("the key of a %s does not match %s", m.Name, m.Key.Pattern)
	}
	if m.KeyAt != "" {
		part, pointer, _ := strings.Cut(strings.TrimPrefix(m.KeyAt, "$message."), "#/")
		var at any = headers
		if part == "payload" {
			at = payload
		}
		for name := range strings.SplitSeq(pointer, "/") {
			members, _ := at.(map[string]any)
			at = members[name]
		}
		if text, ok := at.(string); !ok || text != string(key) {
			return fmt.Errorf("the key of a %s is not the text at %s", m.Name, m.KeyAt)
		}
	}
	return nil
}

// headerObject is headers as an object of texts. A name that comes twice is an error,
// but for those that may; of those the longest counts. foreign headers may be anything.
func headerObject(headers []event.Header, foreign bool) (map[string]any, error) {
	object := map[string]any{}
	for _, h := range headers {
		was, twice := object[h.Name].(string)
		switch {
		case foreign:
		case twice && !strings.HasPrefix(h.Name, signatures):
			return nil, fmt.Errorf("header %s comes twice", h.Name)
		case twice && len(was) >= len(h.Value):
			continue
		}
		object[h.Name] = strings.ToValidUTF8(string(h.Value), "\ufffd")
	}
	return object, nil
}

// Request says what is wrong with a request to an operation of openapi.yaml, or with
// Sluice's own call of a webhook: the headers that must be there and their form, and
// its body, of a media type that the operation names.
func (v *Validator) Request(operation string, header http.Header, body []byte) error {
	i := slices.IndexFunc(v.Operations, func(o contract.Operation) bool { return o.Name() == operation })
	if i < 0 {
		return fmt.Errorf("the contract knows no operation %s", operation)
	}
	o := v.Operations[i]
	for _, p := range o.Parameters {
		if p.In != "header" {
			continue
		}
		value := header.Values(p.Name)
		if len(value) == 0 && !p.Required {
			continue
		}
		pattern, _ := p.Schema["pattern"].(string)
		if len(value) != 1 || !regexp.MustCompile(pattern).MatchString(value[0]) {
			return fmt.Errorf("%s: the header %s is missing, comes twice or has another form than %s", operation, p.Name, pattern)
		}
	}
	if o.Request == nil {
		return nil
	}
	media, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	switch schema, known := o.Request.Types[media]; {
	case !known:
		return fmt.Errorf("%s: the body is %q, which the contract does not know", operation, media)
	case schema != "":
		return v.JSON(schema, body)
	}
	return nil
}

// answerHeaders are those that an answer of ingress is judged by.
var answerHeaders = []string{"Retry-After", "Allow", "Content-Type", "Connection", "X-Content-Type-Options"}

// IngressAnswer says what is wrong with an answer of ingress to a provider.
func (v *Validator) IngressAnswer(status int, header http.Header, body []byte) error {
	headers := map[string]any{}
	for _, name := range answerHeaders {
		if text := header.Get(name); text != "" {
			headers[strings.ToLower(name)] = text
		}
	}
	return v.value("ingress.answer.v1", map[string]any{"status": float64(status), "headers": headers, "body": string(body)})
}

// Answer says what is wrong with an answer to an operation of openapi.yaml, named as
// contract.Operation does: its status must be one of those, with the headers that it
// requires, and its body of a media type that it names.
func (v *Validator) Answer(operation string, status int, header http.Header, body []byte) error {
	i := slices.IndexFunc(v.Operations, func(o contract.Operation) bool { return o.Name() == operation })
	if i < 0 {
		return fmt.Errorf("the contract knows no operation %s", operation)
	}
	code := strconv.Itoa(status)
	answers := v.Operations[i].Answers
	at := slices.IndexFunc(answers, func(a contract.Answer) bool { return a.Status == code })
	if at < 0 {
		at = slices.IndexFunc(answers, func(a contract.Answer) bool { return a.Status == code[:1]+"XX" })
	}
	if at < 0 {
		return fmt.Errorf("%s: the contract knows no answer %d", operation, status)
	}
	for _, h := range answers[at].Headers {
		if h.Required && header.Get(h.Name) == "" {
			return fmt.Errorf("%s: answer %d lacks the header %s", operation, status, h.Name)
		}
	}
	types := answers[at].Body.Types
	media, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	switch schema, known := types[media]; {
	case len(body) == 0:
		return nil
	case !known:
		return fmt.Errorf("%s: answer %d is %s, which the contract does not know", operation, status, media)
	case schema != "":
		return v.JSON(schema, body)
	}
	return nil
}
