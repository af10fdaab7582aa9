package contract

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// Problem is one way in which a contract breaks a released one.
type Problem struct {
	// Where names the schema, topic or operation, and the place in it.
	Where string
	// Why is the rule, and what differs.
	Why string
}

func (p Problem) String() string { return p.Where + ": " + p.Why }

// Breaking says in which ways present breaks released, by the rules of
// schemas/README.md. None: whoever relies on the released contract can go on.
func Breaking(released, present *Contract) []Problem {
	var b breaking
	for _, name := range slices.Sorted(maps.Keys(released.Schemas)) {
		was, is := released.Schemas[name], present.Schemas[name]
		switch {
		case is.Document == nil:
			b.add(name, "the schema is removed")
		case was.ID != is.ID:
			b.add(name, "its $id was %s and is %s", was.ID, is.ID)
		default:
			c := comparison{&b, !released.readsOnly(name)}
			c.schema(name, released.expand(was.Document, was, nil), present.expand(is.Document, is, nil))
		}
	}
	b.topics(released, present)
	b.operations(released, present)
	b.protocols(released, present)
	return b.problems
}

type breaking struct{ problems []Problem }

func (b *breaking) add(where, why string, args ...any) {
	b.problems = append(b.problems, Problem{where, fmt.Sprintf(why, args...)})
}

// readsOnly says whether a schema is of requests to Sluice and of nothing else.
func (c *Contract) readsOnly(name string) bool {
	read, written := false, false
	for _, o := range c.Operations {
		if o.Request != nil && slices.Contains(slices.Collect(maps.Values(o.Request.Types)), name) {
			read, written = read || o.Webhook == "", written || o.Webhook != ""
		}
		for _, a := range o.Answers {
			written = written || slices.Contains(slices.Collect(maps.Values(a.Body.Types)), name)
		}
	}
	return read && !written
}

// expand is a schema with everything it refers to in its place.
func (c *Contract) expand(v any, in Schema, within []string) any {
	switch v := v.(type) {
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok {
			if slices.Contains(within, in.ID+ref) {
				return v // it holds itself
			}
			within = append(slices.Clone(within), in.ID+ref)
		}
		f := c.flat(v, in)
		out := make(map[string]any, len(f.members))
		for name, member := range f.members {
			out[name] = c.expand(member, f.in, within)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = c.expand(item, in, within)
		}
		return out
	}
	return v
}

// comparison holds one schema against its release. written: Sluice writes what it
// describes.
type comparison struct {
	*breaking
	written bool
}

// narrower: what was right may be wrong now.
func (c comparison) narrower(at, why string, args ...any) { c.add(at, why, args...) }

// wider: what was wrong may be right now. Readers of ours were promised that it
// would not come.
func (c comparison) wider(at, why string, args ...any) {
	if c.written {
		c.add(at, why, args...)
	}
}

// annotations say nothing about what is right.
var annotations = []string{"$schema", "$id", "$comment", "$defs", "title", "description", "examples", "default", "deprecated", "readOnly", "writeOnly"}

// byRule are the keywords that have a rule of their own; all others must be equal.
var byRule = []string{"type", "enum", "const", "pattern", "format", "properties", "patternProperties", "required", "additionalProperties",
	"items", "oneOf", "anyOf",
	"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties",
	"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"}

func (c comparison) schema(at string, was, is any) {
	old, oldIs := members(was)
	now, newIs := members(is)
	if !oldIs || !newIs { // false: nothing is right
		if oldIs != newIs && newIs {
			c.wider(at, "it was forbidden and is not")
		} else if oldIs != newIs {
			c.narrower(at, "it is forbidden and was not")
		}
		return
	}
	c.types(at, old, now)
	c.words(at, old, now)
	c.bounds(at, old, now)
	c.texts(at, old, now)
	c.object(at, old, now)
	c.alternatives(at, old, now)
	switch wasItems, isItems := old["items"], now["items"]; {
	case wasItems != nil && isItems != nil:
		c.schema(at+"[]", wasItems, isItems)
	case isItems != nil:
		c.narrower(at, "items are restricted and were not")
	case wasItems != nil:
		c.wider(at, "items are not restricted any more")
	}
	for _, keyword := range union(old, now) {
		if slices.Contains(annotations, keyword) || slices.Contains(byRule, keyword) || strings.HasPrefix(keyword, "x-") {
			continue
		}
		if canonical(old[keyword]) != canonical(now[keyword]) {
			c.narrower(at, "%s differs; no rule says that it may", keyword)
		}
	}
}

// members is a schema's; true is a schema without any, false none at all.
func members(schema any) (map[string]any, bool) {
	if allow, ok := schema.(bool); ok {
		return map[string]any{}, allow
	}
	m, _ := schema.(map[string]any)
	return m, true
}

func union(a, b map[string]any) []string {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

func (c comparison) types(at string, old, now map[string]any) {
	was, is := typeSet(old["type"]), typeSet(now["type"])
	if gone := minus(was, is); len(gone) > 0 {
		c.narrower(at, "the type may not be %s any more", strings.Join(gone, " or "))
	}
	if come := minus(is, was); len(come) > 0 {
		c.wider(at, "the type may be %s now", strings.Join(come, " or "))
	}
}

func typeSet(v any) []string {
	list := words(v)
	if one := text(v); one != "" {
		list = []string{one}
	}
	if list == nil {
		return []string{"array", "boolean", "fraction", "integer", "null", "object", "string"}
	}
	if slices.Contains(list, "number") {
		list = append(list, "integer", "fraction")
	}
	list = slices.DeleteFunc(slices.Sorted(slices.Values(list)), func(s string) bool { return s == "number" })
	return slices.Compact(list)
}

func minus(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}

// words compares enum and const: the values that may be.
func (c comparison) words(at string, old, now map[string]any) {
	was, wasAny := values(old)
	is, isAny := values(now)
	switch gone, come := minus(was, is), minus(is, was); {
	case wasAny && isAny:
	case wasAny:
		c.narrower(at, "only %s may be, and anything could", strings.Join(is, ", "))
	case isAny:
		c.wider(at, "anything may be, and only %s could", strings.Join(was, ", "))
	default:
		if len(gone) > 0 {
			c.narrower(at, "%s may not be any more", strings.Join(gone, ", "))
		}
		if len(come) > 0 {
			c.wider(at, "%s may be now", strings.Join(come, ", "))
		}
	}
}

func values(schema map[string]any) (list []string, free bool) {
	if v, ok := schema["const"]; ok {
		return []string{canonical(v)}, false
	}
	all, ok := schema["enum"].([]any)
	for _, v := range all {
		list = append(list, canonical(v))
	}
	return list, !ok
}

func (c comparison) bounds(at string, old, now map[string]any) {
	for _, keyword := range byRule {
		sign := 0
		if word := strings.ToLower(strings.TrimPrefix(keyword, "exclusive")); strings.HasPrefix(word, "min") {
			sign = 1
		} else if strings.HasPrefix(word, "max") {
			sign = -1
		}
		was, wasSet := number(old[keyword])
		is, isSet := number(now[keyword])
		if sign == 0 || !wasSet && !isSet {
			continue
		}
		tighter := 1 // a bound that comes is tighter
		if wasSet && isSet {
			tighter = is.Cmp(was) * sign
		} else if wasSet {
			tighter = -1
		}
		if tighter > 0 {
			c.narrower(at, "%s was %v and is %v", keyword, shown(old[keyword]), shown(now[keyword]))
		} else if tighter < 0 {
			c.wider(at, "%s was %v and is %v", keyword, shown(old[keyword]), shown(now[keyword]))
		}
	}
}

func number(v any) (*big.Rat, bool) {
	if v == nil {
		return nil, false
	}
	return new(big.Rat).SetString(fmt.Sprint(v))
}

func shown(v any) any {
	if v == nil {
		return "nothing"
	}
	return v
}

func (c comparison) texts(at string, old, now map[string]any) {
	for _, keyword := range []string{"pattern", "format"} {
		switch was, is := text(old[keyword]), text(now[keyword]); {
		case was == is:
		case is == "":
			c.wider(at, "%s falls away", keyword)
		default:
			c.narrower(at, "%s was %q and is %q", keyword, was, is)
		}
	}
}

func (c comparison) object(at string, old, now map[string]any) {
	wasRequired, isRequired := words(old["required"]), words(now["required"])
	for _, name := range minus(isRequired, wasRequired) {
		c.narrower(at, "%s must be there, and could be missing", name)
	}
	for _, name := range minus(wasRequired, isRequired) {
		c.wider(at, "%s may be missing, and had to be there", name)
	}
	wasClosed, isClosed := old["additionalProperties"] == false, now["additionalProperties"] == false
	for _, group := range []string{"properties", "patternProperties"} {
		was, _ := old[group].(map[string]any)
		is, _ := now[group].(map[string]any)
		for _, name := range union(was, is) {
			switch had, has := was[name], is[name]; {
			case has == nil:
				c.narrower(at, "the field %s is removed", name)
			case had != nil:
				c.schema(at+"."+name, had, has)
			case group == "patternProperties": // it may match fields that have a name
				c.narrower(at, "fields that match %s are restricted, and were not", name)
			case has == false && !wasClosed:
				c.narrower(at, "the field %s is forbidden, and was not", name)
			case wasClosed:
				c.wider(at, "the field %s is added to an object that had no others", name)
			}
		}
	}
	switch {
	case wasClosed && !isClosed:
		c.wider(at, "other fields are allowed, and were not")
	case !wasClosed && isClosed:
		c.narrower(at, "other fields are forbidden, and were not")
	case canonical(old["additionalProperties"]) != canonical(now["additionalProperties"]) && !wasClosed:
		c.narrower(at, "additionalProperties differs; no rule says that it may")
	}
}

func (c comparison) alternatives(at string, old, now map[string]any) {
	for _, keyword := range []string{"oneOf", "anyOf"} {
		was, _ := old[keyword].([]any)
		is, _ := now[keyword].([]any)
		switch {
		case len(was) == len(is):
			for i := range was {
				c.schema(at+"/"+strconv.Itoa(i), was[i], is[i])
			}
		case len(was) == 0:
			c.narrower(at, "%s comes new", keyword)
		case len(is) == 0:
			c.wider(at, "%s falls away", keyword)
		default:
			branches := func(list []any) (out []string) {
				for _, b := range list {
					out = append(out, canonical(b))
				}
				return out
			}
			if len(minus(branches(was), branches(is))) > 0 {
				c.narrower(at, "a branch of %s falls away or differs", keyword)
			}
			if len(minus(branches(is), branches(was))) > 0 {
				c.wider(at, "a branch of %s comes new", keyword)
			}
		}
	}
}

// schemasByName are the keywords whose members are schemas under names of their own.
var schemasByName = []string{"properties", "patternProperties", "dependentSchemas"}

// canonical is a value as text without what says nothing about what is right.
func canonical(v any) string {
	out, err := json.Marshal(stripped(v, false))
	if err != nil {
		panic(err) // of what was JSON
	}
	return string(out)
}

func stripped(v any, named bool) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, member := range v {
			if named || !slices.Contains(annotations, name) {
				out[name] = stripped(member, !named && slices.Contains(schemasByName, name))
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = stripped(item, false)
		}
		return out
	}
	return v
}
