package webhook

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// maxFormFields bounds a form: what providers send has some thirty fields.
const maxFormFields = 1000

var errNotForm = errors.New("the body is not a form (application/x-www-form-urlencoded)")

// formField is a field of a form, or of a URL's query, after its escapes are resolved.
type formField struct{ name, value string }

// parseForm reads application/x-www-form-urlencoded, the fields in their order.
// Unlike net/url it bounds their number; like it, a semicolon separates nothing and is
// refused, because readers disagree on it.
func parseForm(text []byte) (list []formField, err error) {
	for part := range strings.SplitSeq(string(text), "&") {
		if part == "" {
			continue
		}
		if len(list) == maxFormFields || strings.Contains(part, ";") {
			return nil, errNotForm
		}
		name, value, _ := strings.Cut(part, "=")
		var f formField
		if f.name, err = url.QueryUnescape(name); err != nil {
			return nil, errNotForm // the error would repeat the body
		}
		if f.value, err = url.QueryUnescape(value); err != nil {
			return nil, errNotForm
		}
		list = append(list, f)
	}
	return list, nil
}

// uniqueForm reads a form of which no field comes twice, because two readers may take
// different ones. Values keep their bytes.
func uniqueForm(body []byte) (map[string]string, error) {
	list, err := parseForm(body)
	if err != nil {
		return nil, err
	}
	form := make(map[string]string, len(list))
	for _, f := range list {
		if _, twice := form[f.name]; twice {
			return nil, errors.New("the form has a field twice")
		}
		form[f.name] = f.value
	}
	return form, nil
}

// scanForm finds the wanted fields of a form, each absent until found. A wanted
// field that comes twice refuses the body.
func (f *fields) scanForm(body []byte) ([]value, error) {
	list, err := parseForm(body)
	if err != nil {
		return nil, err
	}
	out := make([]value, len(f.paths))
	for _, field := range list {
		at := slices.Index(f.root.keys, field.name)
		if at < 0 {
			continue
		}
		v := &out[f.root.next[at].leaf-1]
		if v.kind != absent {
			return nil, fmt.Errorf("the body has the field %q twice", field.name)
		}
		*v = value{kind: plain, raw: []byte(field.value)}
	}
	return out, nil
}

// wrapped is how a form begins that has the JSON in a field (GitHub's form content
// type). No JSON begins with a p, so the bytes alone tell the two apart, whatever
// content type came with them (O03).
var wrapped = []byte("payload=")

// unwrap is the JSON in the form's one field payload, or the body itself if it is
// no such form. Only reading does it: what is signed is the body.
func unwrap(body []byte) ([]byte, error) {
	if !bytes.HasPrefix(body, wrapped) {
		return body, nil
	}
	var f fields
	i, _ := f.addKey("payload")
	values, err := f.scanForm(body)
	if err != nil {
		return nil, err
	}
	return values[i].raw, nil
}

// isForm says that a body is a form with fields of its own, from the bytes alone:
// no form begins with a brace.
func isForm(body []byte) bool {
	text := bytes.TrimLeft(body, " \t\r\n")
	return !bytes.HasPrefix(text, wrapped) && !bytes.HasPrefix(text, []byte("{")) && !bytes.HasPrefix(text, []byte("["))
}
