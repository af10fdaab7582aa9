package lookup

// apis are the providers that can be asked, by name.
var apis = []API{
	checkout,
	click,
	cloudpayments,
	flutterwave,
	gocardless,
	mercadopago,
	midtrans,
	mollieAs("mollie"),
	mollieAs("mollie_classic"),
	paddle,
	paypal,
	razorpay,
	square,
	stripe,
	yookassa,
}
