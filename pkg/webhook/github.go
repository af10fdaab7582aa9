package webhook

import "sluice/pkg/event"

// GitHub is a declared provider: HMAC-SHA256 of the raw body in hex
// (docs.github.com, Validating webhook deliveries). It has no time, and its event
// and delivery headers are not signed. Its events state nothing about orders; it
// stands for the many providers that sign as it does.
var github = Declaration{
	Name:      "github",
	Signature: Signature{Header: "X-Hub-Signature-256", Algorithm: "sha256", Encoding: "hex", Prefix: "sha256="},
	Reading:   githubLayout,
	Profile:   githubProfile("GitHub", "HMAC-SHA256 in hex over the body, in X-Hub-Signature-256"),
}

// githubSHA1 is GitHub's legacy scheme, for senders that know no other. It is a
// provider of its own, so that no request can choose the weaker algorithm.
var githubSHA1 = Declaration{
	Name:      "github_sha1",
	Signature: Signature{Header: "X-Hub-Signature", Algorithm: "sha1", Encoding: "hex", Prefix: "sha1="},
	Reading:   githubLayout,
	Profile:   githubProfile("GitHub (legacy)", "HMAC-SHA1 in hex over the body, in X-Hub-Signature"),
}

func githubProfile(title, signature string) Profile {
	return Profile{
		Title:     title,
		Docs:      "https://docs.github.com/webhooks/using-webhooks/validating-webhook-deliveries",
		Secret:    "the webhook's secret",
		Signature: signature,
		Covers:    "the whole body",
		Leaves:    "the delivery id, the event's name and any time: they are in headers",
		Instead:   "a body sent again under another id is a new event, which states nothing about orders",
		ID:        "header X-GitHub-Delivery",
		Trust:     event.Signed,
		Retries:   0, // only by hand
	}
}

var githubLayout = Layout{
	ID:   Paths{"header:X-GitHub-Delivery"},
	Type: Paths{"header:X-GitHub-Event"},
}
