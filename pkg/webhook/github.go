package webhook

// GitHub is a declared provider: HMAC-SHA256 of the raw body in hex
// (docs.github.com, Validating webhook deliveries). It has no time, and its event
// and delivery headers are not signed. Its events state nothing about orders; it
// stands for the many providers that sign as it does.
var github = Declaration{
	Name:      "github",
	Signature: Signature{Header: "X-Hub-Signature-256", Algorithm: "sha256", Encoding: "hex", Prefix: "sha256="},
	Reading:   githubLayout,
}

// githubSHA1 is GitHub's legacy scheme, for senders that know no other. It is a
// provider of its own, so that no request can choose the weaker algorithm.
var githubSHA1 = Declaration{
	Name:      "github_sha1",
	Signature: Signature{Header: "X-Hub-Signature", Algorithm: "sha1", Encoding: "hex", Prefix: "sha1="},
	Reading:   githubLayout,
}

var githubLayout = Layout{
	ID:   Paths{"header:X-GitHub-Delivery"},
	Type: Paths{"header:X-GitHub-Event"},
}
