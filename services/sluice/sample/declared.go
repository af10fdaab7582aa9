package sample

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/pkg/order"
	"sluice/pkg/webhook"
)

// Declared makes a webhook of a declared provider by setting what its layout
// reads.
func Declared(l webhook.Layout, f Fact) (Webhook, error) {
	i := slices.IndexFunc(l.Facts, func(r webhook.Fact) bool { return r.Kind == f.Kind })
	if i < 0 {
		return Webhook{}, fmt.Errorf("the declared provider states no %s; it has %s", f.Kind,
			kinds(func(k order.Kind) bool {
				return slices.ContainsFunc(l.Facts, func(r webhook.Fact) bool { return r.Kind == k })
			}))
	}
	rule := l.Facts[i]
	if inHeader(l.Type) {
		return Webhook{}, fmt.Errorf("the declared provider states the event's type in a header, which no sample has: send a recorded file (--file)")
	}
	var body any = object{}
	set := func(paths webhook.Paths, v any) {
		if v != "" && v != int64(0) {
			body = put(body, l, paths, v)
		}
	}
	or := func(own, common webhook.Paths) webhook.Paths {
		if len(own) > 0 {
			return own
		}
		return common
	}
	for path, value := range rule.When {
		set(webhook.Paths{path}, value)
	}
	if len(l.ID) > 0 {
		// Of an id of several parts, the type is one already.
		for _, part := range strings.Split(l.ID[0], " + ") {
			set(webhook.Paths{part}, f.ID)
		}
	}
	set(l.Type, rule.Type)
	set(l.Time, timeOf(l, f.Time))
	set(l.Mode, f.Live)
	set(or(rule.Order, l.Order), f.Order)
	set(or(rule.Payment, l.Payment), f.Payment)
	set(or(rule.Object, l.Object), f.Object)
	set(l.Currency, f.Currency)
	set(or(rule.PaymentAmount, l.PaymentAmount), money(l, f.Total, f.Currency))
	set(or(rule.Amount, l.Amount), money(l, f.Amount, f.Currency))
	if l.Body == "form" {
		form := url.Values{}
		for name, v := range body.(object) {
			form.Set(name, fmt.Sprint(v))
		}
		return Webhook{ID: f.ID, ContentType: "application/x-www-form-urlencoded", Body: []byte(form.Encode())}, nil
	}
	return wrap(f, body.(object))
}

func inHeader(paths webhook.Paths) bool {
	return !slices.ContainsFunc(paths, func(path string) bool { return !strings.HasPrefix(path, "header:") })
}

// timeOf is a time as the layout has it.
func timeOf(l webhook.Layout, t time.Time) any {
	switch {
	case l.TimeFormat != "":
		zone := time.UTC
		if offset, err := time.Parse("-07:00", l.TimeZone); err == nil {
			zone = offset.Location()
		}
		return t.In(zone).Format(l.TimeFormat)
	case l.TimeUnit == "ms":
		return t.UnixMilli()
	case l.TimeUnit == "rfc3339":
		return t.UTC().Format(time.RFC3339Nano)
	}
	return t.Unix()
}

// put puts v at the first of paths that lies in the body.
func put(body any, l webhook.Layout, paths webhook.Paths, v any) any {
	for _, path := range paths {
		path = strings.TrimPrefix(strings.TrimPrefix(path, "last:"), "sum:")
		switch {
		case strings.HasPrefix(path, "header:"), strings.HasPrefix(path, "query:"):
			continue
		case strings.HasPrefix(path, "="): // says itself already
		case l.Body == "form":
			body.(object)[path] = v
		default:
			body = deep(body, path, v)
		}
		return body
	}
	return body
}

// deep is at with v at the path under it. Steps are those of webhook.Paths.
func deep(at any, path string, v any) any {
	if path == "" {
		return v
	}
	step, rest := path, ""
	if strings.HasPrefix(path, "[") {
		step, rest, _ = strings.Cut(path, "].")
	} else if i := strings.IndexAny(path, ".["); i >= 0 {
		step, rest = path[:i], strings.TrimPrefix(path[i:], ".")
	}
	list, _ := at.([]any)
	if choice, ok := strings.CutPrefix(step, "["); ok {
		chosen := object{}
		for condition := range strings.SplitSeq(choice, ",") {
			key, value, _ := strings.Cut(condition, "=")
			chosen[key] = value
		}
		is := func(element any) bool {
			o, _ := element.(object)
			for key, value := range chosen {
				if o[key] != value {
					return false
				}
			}
			return true
		}
		i := slices.IndexFunc(list, is)
		if i < 0 {
			i, list = len(list), append(list, chosen)
		}
		list[i] = deep(list[i], rest, v)
		return list
	}
	if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < 16 {
		for len(list) <= i {
			list = append(list, nil)
		}
		list[i] = deep(list[i], rest, v)
		return list
	}
	o, ok := at.(object)
	if !ok {
		o = object{}
	}
	o[step] = deep(o[step], rest, v)
	return o
}

func money(l webhook.Layout, minor int64, currency string) any {
	if l.AmountUnit == "decimal" {
		if text, err := order.FormatDecimal(minor, currency); err == nil {
			return text
		}
	}
	return minor
}
