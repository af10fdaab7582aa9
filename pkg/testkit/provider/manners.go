package provider

import (
	"net/http"
	"path"
	"regexp"
	"strings"
)

// manner is how one provider answers. Bodies are those of its documentation, shortened;
// of Checkout.com and of what is too much at Razorpay, YooKassa and GoCardless only the
// status is documented.
type manner struct {
	authentic                       func(*Objects, *http.Request) bool
	refusal, missing, busy, invalid failure
	// wrap is the key under which an object comes alone; nil: it comes as it is.
	wrap func(path string) string
	// at is where the object lies that is asked for at a path, if it is not there.
	at    func(path string) string
	lists []filtered
}

// failure is an error in the provider's form; %s in the body is what it is about.
type failure struct {
	status int
	body   string
}

func (f failure) answer(w http.ResponseWriter, about string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.status)
	_, _ = w.Write([]byte(strings.ReplaceAll(f.body, "%s", about)))
}

func bearer(o *Objects, r *http.Request) bool {
	return r.Header.Get("Authorization") == "Bearer "+o.Secret
}

func basic(o *Objects, r *http.Request) bool {
	user, password, ok := r.BasicAuth()
	return ok && user == o.User && password == o.Secret
}

// keyAlone is HTTP Basic with the secret as the user and no password.
func keyAlone(o *Objects, r *http.Request) bool {
	user, password, ok := r.BasicAuth()
	return ok && user == o.Secret && password == ""
}

func under(key string) func(string) string { return func(string) string { return key } }

var metadata = regexp.MustCompile(`^metadata\['order_id'\]:'(.*)'$`)

// orderOf takes the order's id out of Stripe's search language.
func orderOf(query string) (string, bool) {
	m := metadata.FindStringSubmatch(query)
	if m == nil {
		return "", false
	}
	return strings.NewReplacer(`\'`, `'`, `\\`, `\`).Replace(m[1]), true
}

func stripeList(path, parameter, field string) filtered {
	s := styles["stripe"]
	return filtered{path: path, parameter: parameter, from: path, field: field, limit: s.limit, most: s.most, usual: s.usual, begin: s.begin, answer: s.answer}
}

func razorpayList(path, parameter, from, field string) filtered {
	s := styles["razorpay"]
	return filtered{path: path, parameter: parameter, from: from, field: field, limit: s.limit, most: s.most, usual: s.usual, begin: s.begin, answer: s.answer}
}

func checkoutList(path, parameter string) filtered {
	return filtered{path: path, parameter: parameter, from: path, field: parameter, limit: "limit", most: 250, usual: 10,
		begin: func(p *paged) { p.skip("skip") },
		answer: func(p paged) any {
			return map[string]any{"limit": p.size, "skip": p.from, "total_count": len(p.items), "data": p.documents()}
		}}
}

var manners = map[string]manner{
	// docs.stripe.com/api/errors, …/pagination, …/pagination/search.
	"stripe": {authentic: bearer,
		refusal: failure{401, `{"error":{"message":"Invalid API Key provided: sk_test_***","type":"invalid_request_error"}}`},
		missing: failure{404, `{"error":{"code":"resource_missing","message":"No such object: '%s'","param":"id","type":"invalid_request_error"}}`},
		busy:    failure{429, `{"error":{"code":"rate_limit","message":"Request rate limit exceeded.","type":"invalid_request_error"}}`},
		invalid: failure{400, `{"error":{"message":"Invalid %s","param":"%s","type":"invalid_request_error"}}`},
		lists: []filtered{
			stripeList("/v1/refunds", "payment_intent", "payment_intent"), stripeList("/v1/refunds", "charge", "charge"),
			stripeList("/v1/disputes", "payment_intent", "payment_intent"), stripeList("/v1/disputes", "charge", "charge"),
			{path: "/v1/payment_intents/search", parameter: "query", value: orderOf, from: "/v1/payment_intents", field: "metadata.order_id", limit: "limit", most: 100, usual: 10,
				begin: func(p *paged) { p.behind(p.query.Get("page"), false) },
				answer: func(p paged) any {
					out := map[string]any{"object": "search_result", "url": p.path, "has_more": p.more(), "data": p.documents(), "next_page": nil}
					if p.more() {
						out["next_page"] = last(p)
					}
					return out
				}},
		}},
	// developer.paddle.com/api-reference/about/errors, …/pagination. A wrong key is a 403.
	"paddle": {authentic: bearer, wrap: under("data"),
		refusal: failure{403, `{"error":{"type":"request_error","code":"invalid_token","detail":"Authentication token not found."},"meta":{"request_id":"r"}}`},
		missing: failure{404, `{"error":{"type":"request_error","code":"not_found","detail":"Entity %s not found"},"meta":{"request_id":"r"}}`},
		busy:    failure{429, `{"error":{"type":"request_error","code":"too_many_requests","detail":"IP address exceeded the allowed rate limit."},"meta":{"request_id":"r"}}`},
		invalid: failure{400, `{"error":{"type":"request_error","code":"bad_request","detail":"Invalid %s"},"meta":{"request_id":"r"}}`},
		lists: []filtered{{path: "/adjustments", parameter: "transaction_id", from: "/adjustments", field: "transaction_id", limit: "per_page", most: 50, usual: 10,
			begin: styles["paddle"].begin, answer: styles["paddle"].answer}}},
	"checkout": {authentic: bearer,
		refusal: failure{401, ``}, missing: failure{404, ``}, busy: failure{429, ``},
		invalid: failure{422, `{"request_id":"r","error_type":"request_invalid","error_codes":["%s_invalid"]}`},
		lists: []filtered{checkoutList("/payments", "reference"), checkoutList("/disputes", "payment_id"),
			{path: "/payments/{value}/actions", from: "/actions", field: "payment_id", usual: 1000, answer: func(p paged) any { return p.documents() }}}},
	// razorpay.com/docs/api/understand. An id that is not known is a 400.
	"razorpay": {authentic: basic,
		refusal: failure{401, `{"error":{"code":"BAD_REQUEST_ERROR","description":"Authentication failed"}}`},
		missing: failure{400, `{"error":{"code":"BAD_REQUEST_ERROR","description":"The id provided does not exist","source":"business","step":"payment_initiation","reason":"input_validation_failed","metadata":{}}}`},
		busy:    failure{429, ``},
		invalid: failure{400, `{"error":{"code":"BAD_REQUEST_ERROR","description":"The %s is invalid."}}`},
		lists: []filtered{razorpayList("/v1/payments/{value}/refunds", "", "/v1/refunds", "payment_id"),
			razorpayList("/v1/orders", "receipt", "/v1/orders", "receipt"),
			{path: "/v1/orders/{value}/payments", from: "/v1/payments", field: "order_id", usual: 1000, answer: styles["razorpay"].answer}}},
	// developer.squareup.com/docs/build-basics/general-considerations/handling-errors.
	"square": {authentic: bearer, wrap: func(at string) string { return strings.TrimSuffix(path.Base(path.Dir(at)), "s") },
		refusal: failure{401, `{"errors":[{"category":"AUTHENTICATION_ERROR","code":"UNAUTHORIZED","detail":"This request could not be authorized."}]}`},
		missing: failure{404, `{"errors":[{"category":"INVALID_REQUEST_ERROR","code":"NOT_FOUND","detail":"Could not find object with id: %s"}]}`},
		busy:    failure{429, `{"errors":[{"category":"RATE_LIMIT_ERROR","code":"RATE_LIMITED"}]}`}},
	// docs.mollie.com/reference/handling-errors.
	"mollie": {authentic: bearer,
		refusal: failure{401, `{"status":401,"title":"Unauthorized Request","detail":"Missing authentication, or failed to authenticate"}`},
		missing: failure{404, `{"status":404,"title":"Not Found","detail":"No payment exists with token %s."}`},
		busy:    failure{429, `{"status":429,"title":"Too Many Requests","detail":"Too many requests"}`}},
	// yookassa.ru/developers/using-api/response-handling.
	"yookassa": {authentic: basic,
		refusal: failure{401, `{"type":"error","id":"e","code":"invalid_credentials","description":"Basic authentication failed","parameter":"Authorization"}`},
		missing: failure{404, `{"type":"error","id":"e","code":"not_found","description":"Object doesn't exist or access denied","parameter":"id"}`},
		busy:    failure{429, `{"type":"error","id":"e","code":"too_many_requests","description":"Too many requests"}`},
		invalid: failure{400, `{"type":"error","id":"e","code":"invalid_request","description":"Invalid %s","parameter":"%s"}`},
		lists: []filtered{{path: "/v3/refunds", parameter: "payment_id", from: "/v3/refunds", field: "payment_id", limit: "limit", most: 100, usual: 10,
			begin: styles["yookassa"].begin, answer: styles["yookassa"].answer}}},
	// developer.gocardless.com/api-reference/#api-usage-errors, …/#api-usage-cursor-pagination.
	"gocardless": {authentic: bearer, wrap: func(at string) string { return path.Base(path.Dir(at)) },
		refusal: failure{401, `{"error":{"message":"The access token you've used is not a valid sandbox API access token","type":"invalid_api_usage","code":401,"errors":[{"reason":"access_token_not_found"}]}}`},
		missing: failure{404, `{"error":{"message":"Resource not found","type":"invalid_api_usage","code":404,"errors":[{"reason":"resource_not_found"}]}}`},
		busy:    failure{429, `{"error":{"message":"Rate limit exceeded","type":"invalid_api_usage","code":429,"errors":[{"reason":"rate_limit_exceeded"}]}}`},
		invalid: failure{400, `{"error":{"message":"Invalid %s","type":"invalid_api_usage","code":400,"errors":[{"reason":"invalid_filters"}]}}`},
		lists: []filtered{{path: "/refunds", parameter: "payment", from: "/refunds", field: "links.payment", limit: "limit", most: 500, usual: 50,
			begin: styles["gocardless"].begin,
			answer: func(p paged) any {
				var after any
				if p.more() {
					after = last(p)
				}
				return map[string]any{"refunds": p.documents(), "meta": map[string]any{"limit": p.size, "cursors": map[string]any{"before": nil, "after": after}}}
			}}}},
	// mercadopago.com/developers/en/reference/payments/_payments_id/get.
	"mercadopago": {authentic: bearer,
		refusal: failure{401, `{"message":"invalid access token","error":"unauthorized","status":401,"cause":[]}`},
		missing: failure{404, `{"message":"Payment not found","error":"not_found","status":404,"cause":[{"code":2000,"description":"Payment not found","data":null}]}`},
		busy:    failure{429, `{"message":"Too many requests","error":"too_many_requests","status":429,"cause":[]}`},
		invalid: failure{400, `{"message":"Invalid %s","error":"bad_request","status":400,"cause":[]}`},
		lists: []filtered{{path: "/v1/payments/search", parameter: "external_reference", from: "/v1/payments", field: "external_reference", limit: "limit", most: 1000, usual: 30,
			begin: styles["mercadopago"].begin, answer: styles["mercadopago"].answer}}},
	// developer.flutterwave.com/v3.0/docs/errors. A transaction that is not known is a 400.
	"flutterwave": {authentic: bearer, wrap: under("data"), at: func(at string) string { return strings.TrimSuffix(at, "/verify") },
		refusal: failure{401, `{"status":"error","message":"Invalid authorization key","data":null}`},
		missing: failure{400, `{"status":"error","message":"No transaction was found for this id","data":null}`},
		busy:    failure{429, `{"status":"error","message":"Too many requests","data":null}`},
		invalid: failure{400, `{"status":"error","message":"%s is invalid","data":null}`},
		lists: []filtered{{path: "/v3/transactions", parameter: "tx_ref", from: "/v3/transactions", field: "tx_ref", usual: 10,
			begin: styles["flutterwave"].begin, answer: styles["flutterwave"].answer}}},
	// docs.midtrans.com/reference/status-code. What it does not know may be a 200.
	"midtrans": {authentic: keyAlone,
		refusal: failure{401, `{"status_code":"401","status_message":"Transaction cannot be authorized with the current client/server key.","id":"e"}`},
		missing: failure{200, `{"status_code":"404","status_message":"Transaction doesn't exist.","id":"e"}`},
		busy:    failure{429, `{"status_code":"429","status_message":"API rate limit exceeded"}`}},
}
