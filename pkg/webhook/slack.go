package webhook

import "sluice/pkg/event"

// slack signs `v0:timestamp:body` (docs.slack.dev, Verifying requests from Slack;
// slack-go security.go holds the time both ways). It states nothing about orders.
type slack struct{ timedDeclared }

func newSlack() Provider {
	return slack{mustDeclare(Declaration{
		Name: "slack",
		Signature: Signature{Header: "X-Slack-Signature", Prefix: "v0=", Algorithm: "sha256", Encoding: "hex",
			Signed: "v0:{timestamp}:{body}", Timestamp: Timestamp{Header: "X-Slack-Request-Timestamp"}},
		Reading: Layout{
			// A handshake and an interaction are no events and have no id of their own.
			ID:      Paths{"event_id", "trigger_id", "challenge"},
			Type:    Paths{"event.type", "type"},
			Time:    Paths{"event_time"},
			Subject: Paths{"event.channel", "channel.id"},
		},
		Profile: Profile{
			Title:     "Slack",
			Docs:      "https://docs.slack.dev/authentication/verifying-requests-from-slack",
			Secret:    "the app's signing secret",
			Signature: "HMAC-SHA256 in hex over `v0:timestamp:body`, in X-Slack-Signature",
			Covers:    "the time and the whole body",
			ID:        "`event_id` of the body, or `trigger_id`",
			Trust:     event.Signed,
			Retries:   RetriesUnknown,
		},
	}).(timedDeclared)}
}

func (p slack) WithTolerance(t Tolerance) Provider {
	p.tolerance = t
	return p
}

func (p slack) WithOrder(at Paths) (_ Provider, err error) {
	p.layout, err = p.withOrder(at)
	return p, err
}

// slackCommand reads a slash command, the one request that is a form of fields.
var slackCommand = Layout{
	Body: "form", ID: Paths{"trigger_id"}, Type: Paths{"=slash_command"}, Subject: Paths{"channel_id"},
}.mustCompile()

func (p slack) Read(h Headers, body []byte) (Reading, error) {
	if isForm(body) {
		return slackCommand.Read(h, body)
	}
	return p.timedDeclared.Read(h, body)
}

var slackHandshake = wanted("type", "challenge")

// Answer repeats the challenge of a handshake, by which Slack knows the address.
func (slack) Answer(_ Headers, body []byte) Answer {
	values, err := slackHandshake.scan(body)
	if err != nil {
		return Answer{}
	}
	if typ, err := values[0].text(); err != nil || typ != "url_verification" {
		return Answer{}
	}
	challenge, err := values[1].text()
	if err != nil {
		return Answer{}
	}
	return Answer{ContentType: "text/plain", Body: []byte(challenge)}
}

var _ interface {
	Timed
	Answering
	Ordered
} = slack{}
