package webhook

import (
	"time"

	"sluice/pkg/event"
)

// adyenPlatform are Adyen's platform and management webhooks: an HMAC of the raw
// body in a header, with a key as for the standard ones (adyen-java-api-library
// HMACValidatorTest). They state nothing about orders.
var adyenPlatform = Declaration{
	Name:      "adyen_platform",
	Signature: Signature{Header: "HmacSignature", Algorithm: "sha256", Encoding: "base64", Key: "hex"},
	Reading: Layout{
		// The object's id alone does not tell its changes apart.
		ID:      Paths{"type + data.id + timestamp", "type + data.id + data.creationDate", "type + data.accountHolder.id + environment", "type + environment"},
		Type:    Paths{"type"},
		Time:    Paths{"timestamp"},
		Mode:    Paths{"environment"},
		Subject: Paths{"data.id", "data.accountHolder.id"},
	},
	Profile: Profile{
		Title:     "Adyen (platform and management)",
		Docs:      "https://docs.adyen.com/development-resources/webhooks/verify-hmac-signatures",
		Secret:    "the webhook's HMAC key, 64 hexadecimal digits",
		Signature: "HMAC-SHA256 in base64 over the body, in HmacSignature",
		Covers:    "the whole body",
		ID:        "type, the object's id and the time, joined by colons",
		Trust:     event.Signed,
		Retries:   30 * 24 * time.Hour,
	},
}
