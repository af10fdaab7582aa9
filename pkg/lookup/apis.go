package lookup

// apis are the providers that can be asked, by name.
var apis = []API{
	click,
	flutterwave,
	gocardless,
	mercadopago,
	midtrans,
	mollie,
	paypal,
	yookassa,
}
