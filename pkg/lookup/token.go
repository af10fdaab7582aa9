package lookup

import (
	"encoding/json"
	"time"
)

// tokenRequest is an OAuth 2.0 client-credentials grant (RFC 6749, 4.4).
type tokenRequest struct {
	path string
	auth func(Account) map[string]string
}

// Token is the request for an access token; false if the API needs none. One token
// serves many look-ups.
func (l *Lookup) Token() (Request, bool) {
	if l.api.token == nil {
		return Request{}, false
	}
	r := Request{Method: "POST", URL: l.account.BaseURL + l.api.token.path, Header: l.api.token.auth(l.account), Body: []byte("grant_type=client_credentials")}
	r.set("Content-Type", "application/x-www-form-urlencoded")
	r.set("Accept", "application/json")
	return r, true
}

// tokenMargin is how long before its end a token is no longer used.
const tokenMargin = time.Minute

// ReadToken reads the answer to Token: the token and how long it may be used. If
// there is none, the step says why; its Outcome is Answered else.
func (l *Lookup) ReadToken(r Response) (token string, use time.Duration, end Step) {
	if end = l.api.judge(r, time.Time{}); end.Outcome != Answered {
		return "", 0, end
	}
	var grant struct {
		Token   string `json:"access_token"`
		Expires int64  `json:"expires_in"`
	}
	if json.Unmarshal(r.Body, &grant) != nil || grant.Token == "" || grant.Expires < 0 {
		return "", 0, Step{Outcome: Unreadable, Why: "the answer holds no access token"}
	}
	return grant.Token, max(time.Duration(min(grant.Expires, 1<<20))*time.Second-tokenMargin, 0), end
}
