package webhook

import "crypto/subtle"

// matchStatic names a secret that the request carries as it is. It is for schemes
// that sign nothing; what they send is a password, and is never stored.
func matchStatic(secrets []Secret, given []byte) (name string, ok bool) {
	for _, s := range secrets {
		if len(s.value) > 0 && subtle.ConstantTimeCompare(s.value, given) == 1 && !ok {
			name, ok = s.Name, true
		}
	}
	return name, ok
}
