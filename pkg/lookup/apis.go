package lookup

// apis are the providers that can be asked, by name.
var apis = []API{
	click,
	cloudpayments,
	flutterwave,
	gocardless,
	mercadopago,
	midtrans,
	mollieAs("mollie"),
	mollieAs("mollie_classic"),
	paypal,
	razorpay,
	square,
	yookassa,
}
