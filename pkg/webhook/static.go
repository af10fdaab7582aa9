package webhook

import (
	"bytes"
	"crypto/subtle"
)

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

// matchDigest names a secret with which a digest comes out as given. It is for schemes
// that hash the secret with the message, and have no HMAC.
func matchDigest(secrets []Secret, digest func(Secret) []byte, given []byte) (name string, ok bool) {
	for _, s := range secrets {
		if len(s.value) > 0 && subtle.ConstantTimeCompare(digest(s), given) == 1 && !ok {
			name, ok = s.Name, true
		}
	}
	return name, ok
}

// withField adds a field of plain text to a JSON object that has others.
func withField(object []byte, name, text string) []byte {
	end := bytes.LastIndexByte(object, '}')
	out := append([]byte(nil), object[:end]...)
	return append(out, `,"`+name+`":"`+text+`"}`...)
}
