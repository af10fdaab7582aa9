package webhook

import (
	"crypto/hmac"
	"encoding/base64"
	"encoding/hex"
	"hash"
)

// maxSignatures bounds how many signatures of one request are compared.
// Rotation sends two or three; an Ed25519 check costs some 50 µs, so an unbounded
// list would let a stranger buy seconds of a core with one header.
const maxSignatures = 16

// matchHMAC names a secret whose HMAC over the parts equals one of the
// candidates (digests, already decoded). Every secret is tried against every
// candidate, in constant time for each. key turns a secret into the HMAC key; a
// secret whose key is empty or cannot be made matches nothing, since everybody
// knows that key.
func matchHMAC(newHash func() hash.Hash, secrets []Secret, key func(Secret) ([]byte, error), candidates [][]byte, parts ...[]byte) (name string, ok bool) {
	var room [64]byte
	for _, s := range secrets {
		k, err := key(s)
		if err != nil || len(k) == 0 {
			continue
		}
		sum := appendHMAC(room[:0], newHash, k, parts...)
		for _, c := range candidates {
			if hmac.Equal(sum, c) && !ok {
				name, ok = s.Name, true
			}
		}
	}
	return name, ok
}

// matched is the verdict of a scheme that signs no time; it takes what a match
// function found.
func matched(name string, ok bool) Verdict {
	if !ok {
		return refuse(ReasonMismatch)
	}
	return Verdict{Outcome: Valid, Secret: name}
}

// appendHMAC appends the HMAC over the parts, one after the other.
func appendHMAC(to []byte, newHash func() hash.Hash, key []byte, parts ...[]byte) []byte {
	mac := hmac.New(newHash, key)
	for _, p := range parts {
		mac.Write(p)
	}
	return mac.Sum(to)
}

// asShown is the key of schemes that use the secret's text as it is shown.
func asShown(s Secret) ([]byte, error) { return s.value, nil }

// fromHex decodes a digest of size bytes, in digits of either case.
func fromHex(text string, size int) ([]byte, bool) {
	if len(text) != hex.EncodedLen(size) {
		return nil, false
	}
	sum, err := hex.DecodeString(text)
	return sum, err == nil
}

// fromBase64 decodes a digest of size bytes, in the one spelling it has.
func fromBase64(text string, size int) ([]byte, bool) {
	if len(text) != base64.StdEncoding.EncodedLen(size) {
		return nil, false
	}
	sum, err := base64.StdEncoding.Strict().DecodeString(text)
	return sum, err == nil && len(sum) == size
}
