package contract

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Field is one member of what a schema describes.
type Field struct {
	// Path is data.amount.value, or history[].version in an array.
	Path string
	// Required: it is there wherever what holds it is.
	Required bool
	// Type is in words: integer, string or null, …
	Type string
	// Rule is what its value must be besides; empty: anything of its type.
	Rule        string
	Description string
}

// Fields are all members that a schema names, in the order of their names, each
// object before what it holds.
func (c *Contract) Fields(schema string) []Field {
	s := c.Schemas[schema]
	return c.fields(nil, "", c.flat(s.Document, s))
}

func (c *Contract) fields(out []Field, prefix string, f flat) []Field {
	required := words(f.members["required"])
	for _, group := range []string{"properties", "patternProperties"} {
		properties, _ := f.members[group].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			p := c.flat(properties[name], f.in)
			at := prefix + name
			out = append(out, Field{Path: at, Required: slices.Contains(required, name), Type: c.typeOf(p), Rule: c.rule(p), Description: text(p.members["description"])})
			out = c.fields(out, at+".", p)
			if items, ok := p.members["items"]; ok {
				out = c.fields(out, at+"[].", c.flat(items, p.in))
			}
		}
	}
	return out
}

// flat is a schema with what it refers to put in: its own members win, properties
// and required come together. in is where references without a name lead.
type flat struct {
	members map[string]any
	in      Schema
}

func (c *Contract) flat(schema any, in Schema) flat {
	members, ok := schema.(map[string]any)
	if !ok {
		return flat{map[string]any{}, in}
	}
	ref, ok := members["$ref"].(string)
	if !ok {
		return flat{members, in}
	}
	target := in
	id, pointer, _ := strings.Cut(ref, "#")
	if id != "" {
		target, _ = c.ByID(id)
	}
	to, err := at(target.Document, "#"+pointer)
	if err != nil {
		return flat{members, in}
	}
	base := c.flat(to, target)
	merged := maps.Clone(base.members)
	for name, value := range members {
		switch name {
		case "$ref":
		case "properties":
			properties, _ := merged[name].(map[string]any)
			properties = maps.Clone(properties)
			if properties == nil {
				properties = map[string]any{}
			}
			maps.Copy(properties, value.(map[string]any))
			merged[name] = properties
		case "required":
			had, _ := merged[name].([]any)
			merged[name] = slices.Concat(had, value.([]any))
		default:
			merged[name] = value
		}
	}
	return flat{merged, base.in}
}

func words(v any) (out []string) {
	list, _ := v.([]any)
	for _, item := range list {
		out = append(out, fmt.Sprint(item))
	}
	return out
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func (c *Contract) typeOf(f flat) string {
	if t := text(f.members["type"]); t != "" {
		if items, ok := f.members["items"]; ok {
			return t + " of " + c.typeOf(c.flat(items, f.in))
		}
		return t
	}
	for _, group := range []string{"oneOf", "anyOf"} {
		if branches, ok := f.members[group].([]any); ok && text(f.members["type"]) == "" {
			var names []string
			for _, b := range branches {
				names = append(names, c.typeOf(c.flat(b, f.in)))
			}
			slices.Reverse(names) // null comes last in words
			return strings.Join(names, " or ")
		}
	}
	value, ok := f.members["const"]
	if list, is := f.members["enum"].([]any); is && len(list) > 0 {
		value, ok = list[0], true
	}
	switch value.(type) {
	case string:
		return "string"
	case json.Number:
		return "integer"
	case bool:
		return "boolean"
	}
	if ok {
		return fmt.Sprintf("%T", value)
	}
	return "any"
}

// rule is what a value must be, in words.
func (c *Contract) rule(f flat) string {
	var parts []string
	m := f.members
	if v, ok := m["const"]; ok {
		parts = append(parts, fmt.Sprintf("always %v", v))
	}
	if list := words(m["enum"]); len(list) > 0 {
		parts = append(parts, "one of "+strings.Join(list, ", "))
	}
	least, most := m["minimum"], m["maximum"]
	switch {
	case least != nil && most != nil:
		parts = append(parts, fmt.Sprintf("%v to %v", least, most))
	case least != nil:
		parts = append(parts, fmt.Sprintf("at least %v", least))
	case most != nil:
		parts = append(parts, fmt.Sprintf("at most %v", most))
	}
	if n := fmt.Sprint(m["minLength"]); n == "1" {
		parts = append(parts, "not empty")
	} else if m["minLength"] != nil {
		parts = append(parts, "at least "+n+" characters")
	}
	if n := m["maxLength"]; n != nil {
		parts = append(parts, fmt.Sprintf("at most %v characters", n))
	}
	if p := text(m["pattern"]); p != "" && m["format"] == nil {
		parts = append(parts, "matches "+p)
	}
	if p := text(m["format"]); p != "" {
		parts = append(parts, "format "+p)
	}
	for _, group := range []string{"oneOf", "anyOf"} {
		branches, _ := m[group].([]any)
		for _, b := range branches {
			if r := c.rule(c.flat(b, f.in)); r != "" {
				parts = append(parts, r)
			}
		}
	}
	return strings.Join(parts, "; ")
}

// Members are the paths, as Fields has them, of everything in a JSON text, sorted.
func Members(text []byte) ([]string, error) {
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return nil, err
	}
	found := map[string]bool{}
	membersOf("", v, found)
	return slices.Sorted(maps.Keys(found)), nil
}

func membersOf(prefix string, v any, found map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			found[prefix+name] = true
			membersOf(prefix+name+".", member, found)
		}
	case []any:
		for _, item := range v {
			membersOf(strings.TrimSuffix(prefix, ".")+"[].", item, found)
		}
	}
}
