package postgres

import (
	"encoding/hex"
)

// object is the entry's column object_id: of a decision, the entry it is about.
func (f *Fact) object() string {
	if f.Kind.IsDecision() {
		return hex.EncodeToString(f.Target[:])
	}
	return f.Object
}

func targetOf(object string) (target [16]byte) {
	if b, err := hex.DecodeString(object); err == nil && len(b) == len(target) {
		target = [16]byte(b)
	}
	return target
}
