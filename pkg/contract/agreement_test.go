package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/pkg/effect"
	"sluice/pkg/event"
	"sluice/pkg/kafka"
	"sluice/pkg/lookup"
	"sluice/pkg/order"
	"sluice/pkg/status"
	"sluice/pkg/webhook"
	"sluice/schemas"
)

// The documents and the program say the same, in both directions: what one has and
// the other has not is an error here.

func current(t *testing.T) *Contract {
	t.Helper()
	c, err := Read(schemas.FS)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTheTopicsAreThoseOfTheContract(t *testing.T) {
	type topic struct {
		Key        string
		Partitions int32
		Config     map[string]string
	}
	documented, made := map[string]topic{}, map[string]topic{}
	for _, d := range current(t).Topics {
		for _, m := range d.Messages {
			one := topic{m.Key.Title, d.Partitions, d.Config}
			if was, ok := documented[d.Address]; ok && was.Key != one.Key {
				t.Errorf("%s has messages with two kinds of keys", d.Address)
			}
			documented[d.Address] = one
		}
		if g := d.Delivery; (g.Guarantee != "exactly once" || g.Isolation != "read_committed") && (g.Guarantee != "at least once" || len(g.Exceptions) == 0) {
			t.Errorf("%s: its delivery is not stated whole: %+v", d.Address, g)
		}
	}
	for _, s := range kafka.Topics {
		config := maps.Clone(s.Config)
		if config["cleanup.policy"] == "" {
			config["cleanup.policy"] = "delete" // what EnsureTopics asks for then
		}
		made[s.Name] = topic{s.Key, s.Partitions, config}
	}
	if diff := cmp.Diff(documented, made); diff != "" {
		t.Errorf("the contract (-) and the topics (+):\n%s", diff)
	}
}

func TestTheGroupOfTheProcessorIsThatOfTheContract(t *testing.T) {
	group, err := at(current(t).AsyncAPI, "#/operations/applyEvents/bindings/kafka/groupId/const")
	if err != nil || group != kafka.Group {
		t.Errorf("the contract says %v (%v), the program %s", group, err, kafka.Group)
	}
}

func TestTheRawHeadersAreThoseOfTheContract(t *testing.T) {
	type header struct {
		Required bool
		Max      string
	}
	s := current(t).Schemas["webhooks.raw.headers.v1"].Document
	required := words(s["required"])
	documented, written := map[string]header{}, map[string]header{}
	for name, p := range s["properties"].(map[string]any) {
		members := p.(map[string]any)
		longest := fmt.Sprint(members["maxLength"])
		for _, word := range append(words(members["enum"]), text(members["const"])) {
			if word != "" && (longest == "<nil>" || len(word) > len(longest)) {
				longest = word
			}
		}
		if members["maxLength"] == nil {
			longest = fmt.Sprint(len(longest))
		}
		documented[name] = header{slices.Contains(required, name), longest}
	}
	for _, h := range event.RecordHeaders {
		written[h.Name] = header{h.Required, fmt.Sprint(h.Max)}
	}
	if diff := cmp.Diff(documented, written); diff != "" {
		t.Errorf("the contract (-) and the headers (+):\n%s", diff)
	}
	for pattern, p := range s["patternProperties"].(map[string]any) {
		if most := p.(map[string]any)["maxLength"]; !strings.HasPrefix(pattern, "^"+event.SignaturePrefix) || fmt.Sprint(most) != fmt.Sprint(event.MaxSignature) {
			t.Errorf("%s, at most %v characters", pattern, most)
		}
	}
}

func sameMembers(t *testing.T, schema string, text []byte) {
	t.Helper()
	written, err := Members(text)
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, f := range current(t).Fields(schema) {
		documented = append(documented, f.Path)
	}
	slices.Sort(documented)
	if diff := cmp.Diff(documented, written); diff != "" {
		t.Errorf("the members of %s (-) and of what the program writes (+):\n%s", schema, diff)
	}
}

func TestAStatusMessageHasTheMembersAndHeadersOfTheContract(t *testing.T) {
	m := status.Message{Source: "sluice", OrderID: "a", Version: 2, Previous: order.Pending, Status: order.Paid, Currency: "EUR",
		Cause: status.Cause{Source: "s", EventID: "e"}, OccurredAt: time.UnixMilli(1), ChangedAt: time.UnixMilli(1)}
	sameMembers(t, "order.status_changed.v1", m.Encode())
	var written []string
	for _, h := range m.Headers() {
		written = append(written, h.Name)
	}
	c := current(t)
	s := c.Schemas["order.status_changed.headers.v1"].Document
	if required := words(s["required"]); !slices.Equal(required, written) || len(s["properties"].(map[string]any)) != len(written) {
		t.Errorf("the contract has the headers %v, the program %v", required, written)
	}
	if id := c.Schemas["order.status_changed.v1"].ID; id != status.Schema {
		t.Errorf("the contract calls the schema %s, the program %s", id, status.Schema)
	}
	for _, topic := range c.Topics {
		if m := topic.Messages[0]; (topic.Address == kafka.Status || topic.Address == kafka.Latest) && (m.Payload != "order.status_changed.v1" || m.ContentType != status.ContentType) {
			t.Errorf("%s: %+v", topic.Address, m)
		}
	}
}

func TestALookedUpFactHasTheMembersOfTheContract(t *testing.T) {
	full := webhook.Reading{Subject: "s", Fact: order.KindRefund, Time: time.Unix(1, 0), Mode: event.Live, Order: "o", Payment: "p", Object: "r",
		Amount: 1, Currency: "EUR", PaymentAmount: 2, Extent: webhook.Partial}
	text, err := lookup.Encode(full)
	if err != nil {
		t.Fatal(err)
	}
	sameMembers(t, "webhooks.looked_up.v1", text)
	c := current(t)
	var stated []string
	for k := order.KindNone; k <= order.KindDismiss; k++ {
		if _, err := lookup.Encode(webhook.Reading{Subject: "s", Fact: k, Order: "o", Object: "r", Currency: "EUR"}); err == nil {
			stated = append(stated, k.String())
		}
	}
	facts, err := at(c.Schemas["webhooks.looked_up.v1"].Document, "#/properties/fact/enum")
	if err != nil || !slices.Equal(words(facts), stated) {
		t.Errorf("the contract knows the facts %v, the program %v", facts, stated)
	}
	form, err := at(c.Schemas["webhooks.looked_up.headers.v1"].Document, "#/properties/content-type/const")
	if err != nil || form != lookup.ContentType {
		t.Errorf("the contract calls its form %v, the program %s", form, lookup.ContentType)
	}
}

func TestAnEffectsBodyHasTheMembersOfTheContract(t *testing.T) {
	m := status.Message{Source: "sluice", OrderID: "a", Version: 2, Previous: order.Pending, Status: order.Paid, Currency: "EUR",
		Cause: status.Cause{Source: "s", EventID: "e"}, OccurredAt: time.UnixMilli(1), ChangedAt: time.UnixMilli(1)}
	f := effect.Fact{Source: "s", Kind: order.KindPaid, Payment: "p"}
	sameMembers(t, "order.effect.v1", effect.Body("fulfil", effect.KeyOf("a", "fulfil", f), f, m))
	c := current(t)
	if id := c.Schemas["order.effect.v1"].ID; id != effect.Schema {
		t.Errorf("the contract calls the schema %s, the program %s", id, effect.Schema)
	}
	for _, o := range c.Operations {
		if o.Webhook == "effect" && (o.Request == nil || o.Request.Types[effect.ContentType] != "order.effect.v1") {
			t.Errorf("the contract's call of an effect carries %+v", o.Request)
		}
	}
}

// What the two sides do with the examples: the reader of looked-up facts takes the
// good ones and refuses the bad ones.
func TestTheReaderOfLookedUpFactsAgreesWithTheExamples(t *testing.T) {
	for _, kind := range []string{"good", "bad"} {
		dir := "examples/webhooks.looked_up.v1/" + kind
		files, err := schemas.FS.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			text, err := schemas.FS.ReadFile(dir + "/" + f.Name())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := lookup.Decode(compact(t, text)); (err == nil) != (kind == "good") {
				t.Errorf("%s/%s: %v", kind, f.Name(), err)
			}
		}
	}
}

func compact(t *testing.T, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
