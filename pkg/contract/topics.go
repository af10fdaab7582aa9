package contract

import (
	"fmt"
	"slices"
	"strings"
)

// Topic is one topic as asyncapi.yaml has it.
type Topic struct {
	// Address is its name without a deployment's prefix.
	Address            string
	Title, Description string
	Partitions         int32
	// Config are topic settings in Kafka's own names and texts.
	Config   map[string]string
	Delivery Delivery
	// Messages are the kinds of messages on it.
	Messages []Message
}

// Delivery is what consumers may rely on.
type Delivery struct {
	// Guarantee is "exactly once" or "at least once", for consumers of that Isolation.
	Guarantee string `json:"guarantee"`
	Isolation string `json:"isolation"`
	Order     string `json:"order"`
	// Exceptions are all cases in which the guarantee does not hold, or how repeats
	// come about.
	Exceptions []string `json:"exceptions"`
}

// Message is one kind of message.
type Message struct {
	Name, Title, ContentType string
	// Headers and Payload name schemas; empty: any.
	Headers, Payload string
	// PayloadText says what the value is where no schema does.
	PayloadText string
	// Key says what it is keyed by; KeyAt is where the same text is in the message, as
	// an AsyncAPI runtime expression, if it is.
	Key   Key
	KeyAt string
}

// Key is what records are keyed by.
type Key struct {
	// Title names it in two words, as kafka.TopicSpec does.
	Title       string `json:"title"`
	Description string `json:"description"`
	Pattern     string `json:"pattern"`
	MinLength   int    `json:"minLength"`
}

type multiFormat struct {
	Format string `json:"schemaFormat"`
	Schema struct {
		Ref string `json:"$ref"`
	} `json:"schema"`
	Description string `json:"description"`
}

func (m multiFormat) name() string {
	if m.Schema.Ref == "" {
		return ""
	}
	return schemaName(m.Schema.Ref)
}

type asyncAPI struct {
	Info     struct{ Version, Description string }
	Channels map[string]struct {
		Address, Title, Description string
		Delivery                    Delivery `json:"x-delivery"`
		Messages                    map[string]struct {
			Title       string
			ContentType string
			Headers     multiFormat
			Payload     multiFormat
			KeyAt       string `json:"x-key"`
			Bindings    struct{ Kafka struct{ Key Key } }
		}
		Bindings struct {
			Kafka struct {
				Partitions         int32
				TopicConfiguration map[string]any
				Timestamps         string `json:"x-timestamps"`
			}
		}
	}
}

func (c *Contract) readTopics() (version string, err error) {
	var doc asyncAPI
	if err := into(c.AsyncAPI, &doc); err != nil {
		return "", err
	}
	c.About.Topics = doc.Info.Description
	for _, ch := range doc.Channels {
		t := Topic{Address: ch.Address, Title: ch.Title, Description: ch.Description, Delivery: ch.Delivery,
			Partitions: ch.Bindings.Kafka.Partitions, Config: map[string]string{}}
		for name, value := range ch.Bindings.Kafka.TopicConfiguration {
			t.Config[name] = setting(value)
		}
		if at := ch.Bindings.Kafka.Timestamps; at != "" {
			t.Config["message.timestamp.type"] = at
		}
		for name, m := range ch.Messages {
			one := Message{Name: name, Title: m.Title, ContentType: m.ContentType, Headers: m.Headers.name(), Payload: m.Payload.name(),
				PayloadText: m.Payload.Description, Key: m.Bindings.Kafka.Key, KeyAt: m.KeyAt}
			for _, schema := range []string{one.Headers, one.Payload} {
				if _, ok := c.Schemas[schema]; schema != "" && !ok {
					return "", fmt.Errorf("message %s: there is no schema %s", name, schema)
				}
			}
			t.Messages = append(t.Messages, one)
		}
		slices.SortFunc(t.Messages, func(a, b Message) int { return strings.Compare(a.Name, b.Name) })
		c.Topics = append(c.Topics, t)
	}
	slices.SortFunc(c.Topics, func(a, b Topic) int { return strings.Compare(a.Address, b.Address) })
	return doc.Info.Version, nil
}

// setting is a topic setting's value as Kafka writes it: lists with commas.
func setting(value any) string {
	switch v := value.(type) {
	case []any:
		parts := make([]string, len(v))
		for i, item := range v {
			parts[i] = setting(item)
		}
		return strings.Join(parts, ",")
	case float64:
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprint(value)
}
