package merchant

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"sluice/pkg/order"
	"sluice/pkg/postgres"
)

// maxText is the longest order id and reference, in bytes.
const maxText = 255

// parseRegistration reads {"amount": 125050, "currency": "USD", "reference": "…"}
// strictly: names in their exact case, each at most once and none unknown; the
// amount an integer of minor units, written without sign, fraction or exponent.
// It returns everything that is wrong.
func parseRegistration(id string, body []byte) (postgres.Registration, []string) {
	r := postgres.Registration{OrderID: id}
	problems := checkText("order id", id)
	if strings.TrimSpace(id) == "" { // as in webhooks: a blank reference names no order
		problems = append(problems, "the order id is empty or blank")
	}
	members, err := parseObject(body)
	if err != nil {
		return r, append(problems, "the body is not one JSON object: "+err.Error())
	}
	seen := map[string]bool{}
	for _, m := range members {
		if seen[m.name] {
			problems = append(problems, fmt.Sprintf("%q is there twice", m.name))
			continue
		}
		seen[m.name] = true
		var problem string
		switch m.name {
		case "amount":
			r.Amount, problem = parseAmount(m.value)
		case "currency":
			r.Currency, problem = parseCurrency(m.value)
		case "reference":
			text, ok := m.value.(string)
			if !ok {
				problem = "reference must be a string"
			}
			r.Reference = text
			problems = append(problems, checkText("reference", text)...)
		default:
			problem = fmt.Sprintf("%q is unknown; there are amount, currency and reference", m.name)
		}
		if problem != "" {
			problems = append(problems, problem)
		}
	}
	for _, name := range []string{"amount", "currency"} {
		if !seen[name] {
			problems = append(problems, name+" is missing")
		}
	}
	return r, problems
}

type member struct {
	name  string
	value any // json.Number, string, bool, nil, or json.Delim for what is nested
}

// parseObject reads one flat JSON object, keeping repeated names.
func parseObject(body []byte) ([]member, error) {
	if !utf8.Valid(body) {
		return nil, errors.New("it is not UTF-8")
	}
	if !json.Valid(body) {
		return nil, errors.New("it is malformed, or something follows it")
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return nil, errors.New("it does not begin with {")
	}
	var members []member
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, errors.New("it is malformed")
		}
		value, err := dec.Token()
		if err != nil {
			return nil, errors.New("it is malformed")
		}
		if _, nested := value.(json.Delim); nested {
			return nil, fmt.Errorf("%q holds an object or array", name)
		}
		members = append(members, member{name.(string), value})
	}
	return members, nil
}

func parseAmount(value any) (int64, string) {
	n, ok := value.(json.Number)
	if !ok {
		return 0, "amount must be a number: minor units"
	}
	if strings.ContainsFunc(n.String(), func(r rune) bool { return r < '0' || r > '9' }) {
		return 0, "amount must be a whole number of minor units, without sign, fraction or exponent"
	}
	v, err := strconv.ParseInt(n.String(), 10, 64)
	if err != nil {
		return 0, "amount is too large"
	}
	return v, ""
}

func parseCurrency(value any) (string, string) {
	code, ok := value.(string)
	if !ok {
		return "", "currency must be a string"
	}
	if _, ok := order.Exponent(code); !ok {
		return "", "currency must be an ISO 4217 code in upper case"
	}
	return code, ""
}

// checkText: what people and logs see, and what PostgreSQL stores, holds no
// control characters.
func checkText(what, text string) (problems []string) {
	if len(text) > maxText {
		problems = append(problems, fmt.Sprintf("the %s is longer than %d bytes", what, maxText))
	}
	if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		problems = append(problems, fmt.Sprintf("the %s holds control characters or is not UTF-8", what))
	}
	return problems
}
