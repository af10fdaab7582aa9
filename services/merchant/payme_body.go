package merchant

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// What the provider's own reading leaves out, and answers or people want back as it
// was sent. Names count in their exact case, so that nothing is read here that the
// reading has passed over; a name that comes twice it has refused.

// maxKept is the longest object that is kept, in bytes.
const maxKept = 4 << 10

// accountOf is params.account without white space; empty if it is no object.
func accountOf(body []byte) string { return object(within(body, "params", "account")) }

// fiscalOf is params.type and params.fiscal_data of SetFiscalData.
func fiscalOf(body []byte) (kind, data string) {
	_ = json.Unmarshal(within(body, "params", "type"), &kind)
	return kind, object(within(body, "params", "fiscal_data"))
}

// within is what lies at a path of names; nil if nothing does.
func within(body []byte, path ...string) json.RawMessage {
	for _, name := range path {
		var members map[string]json.RawMessage
		if json.Unmarshal(body, &members) != nil {
			return nil
		}
		body = members[name]
	}
	return body
}

func object(raw json.RawMessage) string {
	var out bytes.Buffer
	if len(raw) == 0 || raw[0] != '{' || !utf8.Valid(raw) || json.Compact(&out, raw) != nil || out.Len() > maxKept {
		return ""
	}
	return out.String()
}
