package send

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"

	"sluice/services/sluice/sample"
)

// Arrange repeats each webhook duplicates more times and, if asked, shuffles the
// lot, as networks and retries do. The same random source gives the same order.
func Arrange(webhooks []Webhook, duplicates int, shuffle bool, random *rand.Rand) []Webhook {
	out := make([]Webhook, 0, len(webhooks)*(duplicates+1))
	for _, w := range webhooks {
		for range duplicates + 1 {
			out = append(out, w)
		}
	}
	if shuffle {
		random.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	}
	return out
}

// Recorded reads a recorded file: one JSON body of any shape, or one compact body
// a line (JSON lines). Bodies keep their bytes. Where a scheme has the event's id
// in a header, newID makes one for each.
func Recorded(text []byte, newID func() string) ([]Webhook, error) {
	one := func(body []byte) Webhook {
		return Webhook{Webhook: sample.Webhook{ID: newID(), ContentType: "application/json", Body: body}}
	}
	if json.Valid(text) {
		return []Webhook{one(text)}, nil
	}
	var out []Webhook
	for i, line := range bytes.Split(text, []byte("\n")) {
		line = bytes.TrimSuffix(line, []byte("\r"))
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if !json.Valid(line) {
			return nil, fmt.Errorf("line %d is not JSON", i+1)
		}
		out = append(out, one(line))
	}
	if len(out) == 0 {
		return nil, errors.New("it is empty")
	}
	return out, nil
}
