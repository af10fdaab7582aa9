package webhook

import (
	"net/url"
	"strings"
	"time"
)

// certificateURL checks the address of a signing certificate: https on its standard
// port, and a host of the provider's own, or whoever can send could have signed.
func certificateURL(text string, own func(host string) bool) (string, Reason) {
	if text == "" {
		return "", ReasonMissing
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.User != nil || u.Opaque != "" || u.RawQuery != "" || u.Fragment != "" || !hostName(u.Host) || !own(u.Host) {
		return "", ReasonCertificate
	}
	return u.String(), ReasonNone
}

// hostName: a plain name in lower case, without a port.
func hostName(host string) bool {
	return host != "" && host[0] != '.' && strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789-.") == "" && !strings.Contains(host, "..")
}

// validAt: the signing certificate is there and within its dates.
func (c Certificate) validAt(now time.Time) bool {
	return len(c.Chain) > 0 && !now.Before(c.Chain[0].NotBefore) && !now.After(c.Chain[0].NotAfter)
}
