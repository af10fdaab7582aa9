package webhook

import "errors"

// member is a key of a JSON object, its escapes resolved, and its value.
type member struct {
	key   string
	value value
}

// members are those of a body's root object, in their order. A key that comes twice
// refuses the body.
func members(body []byte) (list []member, err error) {
	s := scanner{b: body}
	if s.space(); s.peek() != '{' {
		return nil, errNotObject
	}
	s.i++
	s.depth++
	seen := map[string]bool{}
	if s.space(); s.peek() == '}' {
		s.i++
	} else {
		for more := true; more; {
			start := s.i
			if s.peek() != '"' {
				return nil, errNotJSON
			}
			if err := s.text(); err != nil {
				return nil, err
			}
			var m member
			if m.key, err = unquote(s.b[start:s.i]); err != nil {
				return nil, err
			}
			if seen[m.key] {
				return nil, errors.New("the body has a key twice")
			}
			seen[m.key] = true
			if s.space(); s.peek() != ':' {
				return nil, errNotJSON
			}
			s.i++
			s.space()
			start = s.i
			if err := s.value(nil); err != nil {
				return nil, err
			}
			m.value = jsonValue(s.b[start:s.i])
			list = append(list, m)
			if more, err = s.more('}'); err != nil {
				return nil, err
			}
			s.space()
		}
	}
	if s.space(); s.i < len(s.b) {
		return nil, errNotJSON
	}
	return list, nil
}
