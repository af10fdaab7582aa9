package contract

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"sluice/schemas"
)

func (b *breaking) topics(released, present *Contract) {
	for _, was := range released.Topics {
		i := slices.IndexFunc(present.Topics, func(t Topic) bool { return t.Address == was.Address })
		if i < 0 {
			b.add(was.Address, "the topic is removed")
			continue
		}
		is := present.Topics[i]
		for what, pair := range map[string][2]string{
			"cleanup.policy": {was.Config["cleanup.policy"], is.Config["cleanup.policy"]},
			"the guarantee":  {was.Delivery.Guarantee, is.Delivery.Guarantee},
			"the isolation":  {was.Delivery.Isolation, is.Delivery.Isolation},
			"the order":      {was.Delivery.Order, is.Delivery.Order},
			// Consumers ask for a place by the time that messages have.
			"message.timestamp.type": {was.Config["message.timestamp.type"], is.Config["message.timestamp.type"]},
		} {
			if pair[0] != pair[1] {
				b.add(was.Address, "%s was %q and is %q", what, pair[0], pair[1])
			}
		}
		if len(is.Delivery.Exceptions) > len(was.Delivery.Exceptions) {
			b.add(was.Address, "its guarantee does not hold in more cases")
		}
		// Without a setting the brokers' own holds: by time nobody knows which, by size none.
		for keyword, unset := range map[string]string{"retention.ms": "0", "retention.bytes": "-1"} {
			wasKept, isKept := cmp.Or(was.Config[keyword], unset), cmp.Or(is.Config[keyword], unset)
			if less(isKept, wasKept) {
				b.add(was.Address, "messages are kept for less: %s was %s and is %s", keyword, wasKept, isKept)
			}
		}
		for _, m := range was.Messages {
			i := slices.IndexFunc(is.Messages, func(o Message) bool { return o.Name == m.Name })
			if i < 0 {
				b.add(was.Address, "the message %s is removed", m.Name)
				continue
			}
			if o := is.Messages[i]; o.Headers != m.Headers || o.Payload != m.Payload || o.ContentType != m.ContentType || o.KeyAt != m.KeyAt ||
				o.Key.Title != m.Key.Title || o.Key.Pattern != m.Key.Pattern || o.Key.MinLength != m.Key.MinLength {
				b.add(was.Address, "the key, content type or schemas of the message %s differ", m.Name)
			}
		}
	}
}

// less compares how much is kept; negative is without limit.
func less(is, was string) bool {
	i, iSet := number(is)
	w, wSet := number(was)
	if !iSet || !wSet {
		return is != was
	}
	return i.Sign() >= 0 && (w.Sign() < 0 || i.Cmp(w) < 0)
}

func (b *breaking) operations(released, present *Contract) {
	if canonical(released.Tokens) != canonical(present.Tokens) {
		b.add(schemas.OpenAPI, "the token is given in another way")
	}
	for _, was := range released.Operations {
		i := slices.IndexFunc(present.Operations, func(o Operation) bool { return o.Name() == was.Name() })
		if i < 0 {
			b.add(was.Name(), "the operation is removed")
			continue
		}
		is := present.Operations[i]
		if was.Open && !is.Open {
			b.add(was.Name(), "it needs a token, and did not")
		}
		// Of a webhook Sluice writes the request and reads the answer.
		b.parameters(was.Name(), was.Parameters, is.Parameters, was.Webhook != "")
		switch {
		case was.Request == nil && is.Request != nil && is.Request.Required && was.Webhook == "":
			b.add(was.Name(), "it needs a body, and did not")
		case was.Request != nil && is.Request == nil:
			b.add(was.Name(), "its body is removed")
		case was.Request != nil:
			if is.Request.Required && !was.Request.Required {
				b.add(was.Name(), "its body must be there, and could be missing")
			}
			b.media(was.Name(), was.Request.Types, is.Request.Types)
		}
		for _, a := range was.Answers {
			where := was.Name() + " " + a.Status
			i := slices.IndexFunc(is.Answers, func(o Answer) bool { return o.Status == a.Status })
			if i < 0 {
				b.add(where, "the answer is removed")
				continue
			}
			b.parameters(where, a.Headers, is.Answers[i].Headers, was.Webhook == "")
			b.media(where, a.Body.Types, is.Answers[i].Body.Types)
		}
	}
}

// parameters compares those of a request or the headers of an answer.
func (b *breaking) parameters(where string, was, is []Parameter, written bool) {
	find := func(list []Parameter, p Parameter) int {
		return slices.IndexFunc(list, func(o Parameter) bool {
			return o.In == p.In && (o.Name == p.Name || p.In == "header" && strings.EqualFold(o.Name, p.Name))
		})
	}
	for _, p := range was {
		i := find(is, p)
		switch {
		case i < 0:
			b.add(where, "the %s %s is removed", p.In, p.Name)
		case written && p.Required && !is[i].Required:
			b.add(where, "the %s %s may be missing, and had to be there", p.In, p.Name)
		case !written && !p.Required && is[i].Required:
			b.add(where, "the %s %s must be there, and could be missing", p.In, p.Name)
		default:
			comparison{b, written}.schema(where+" "+p.Name, p.Schema, is[i].Schema)
		}
	}
	for _, p := range is {
		if !written && p.Required && find(was, p) < 0 {
			b.add(where, "the %s %s must be there, and is new", p.In, p.Name)
		}
	}
}

func (b *breaking) media(where string, was, is map[string]string) {
	for _, media := range slices.Sorted(maps.Keys(was)) {
		schema, ok := is[media]
		switch {
		case !ok:
			b.add(where, "%s is removed", media)
		case schema != was[media]:
			b.add(where, "%s has the schema %q, and had %q", media, schema, was[media])
		}
	}
}

// protocols compares the calls and answers of Payme and Click.
func (b *breaking) protocols(released, present *Contract) {
	was, is := components(released.PaymeClick), components(present.PaymeClick)
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if is[name] == nil {
			b.add("payme-click "+name, "the schema is removed")
			continue
		}
		read := strings.HasSuffix(name, "Call") || strings.HasSuffix(name, "Request")
		comparison{b, !read}.schema("payme-click "+name, was[name], is[name])
	}
}

func components(doc any) map[string]any {
	whole, err := resolve(doc, doc, nil)
	if err != nil {
		return nil
	}
	found, err := at(whole, "#/components/schemas")
	if err != nil {
		return nil
	}
	schemas, _ := found.(map[string]any)
	return schemas
}
