package webhook

import (
	"maps"
	"slices"
)

// builtin are the providers that come with Sluice, by name.
var builtin = byName(
	newStripe(),
	newStandardWebhooks(),
	newSvix(),
	mustDeclare(github),
	mustDeclare(githubSHA1),
	mustDeclare(shopify),
	mustDeclare(shopifyEvents),
	mustDeclare(paddle),
	mustDeclare(razorpay),
	mustDeclare(checkout),
	mustDeclare(coinbaseCommerce),
	mustDeclare(paystack),
	newPayme(),
	newClick(),
	newAdyen(),
	newAdyenManualCapture(),
	mustDeclare(adyenPlatform),
	newGoCardless(),
	newSquare(),
	newTwilio(),
	newTwilioSHA256(),
	newSlack(),
	newWise(),
	newCashfree(),
	newCloudPayments(),
	newPayU(),
	newPayUMD5(),
	newPayPal(),
	newAWSSNS(),
	newYooKassa(),
	newMollie(),
	newMollieClassic(),
	newMidtrans(),
	newMercadoPago(),
	newFlutterwave(),
	mustDeclare(flutterwaveV4),
	newTBank(),
	newBraintree(),
)

// Builtin is the provider of that name with the tolerance of its own SDKs.
func Builtin(name string) (Provider, bool) {
	p, ok := builtin[name]
	return p, ok
}

// BuiltinNames lists the built-in providers in alphabetical order.
func BuiltinNames() []string { return slices.Sorted(maps.Keys(builtin)) }

func byName(ps ...Provider) map[string]Provider {
	m := make(map[string]Provider, len(ps))
	for _, p := range ps {
		m[p.Name()] = p
	}
	return m
}

func mustDeclare(d Declaration) Provider {
	p, err := NewDeclared(d)
	if err != nil {
		panic(err)
	}
	return p
}
