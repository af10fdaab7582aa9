package order

import "testing"

// FuzzFold takes eight bytes an entry, folds the set and each step that leads to
// it, and checks what must hold for every set.
func FuzzFold(f *testing.F) {
	f.Add([]byte("\x03\x01\x00\x00\x64\x00\x00\x01\x04\x02\x00\x01\x28\x00\x00\x02"))
	f.Add([]byte("\x03\x01\x00\x00\x64\x00\x00\x00\x03\x02\x01\x00\x64\x00\x00\x00\x0c\x09\x00\x01\x00\x00\x02\x00\x04\x05\x01\x01\x64\x00\x00\x00"))
	f.Add(make([]byte, 160))
	f.Fuzz(func(t *testing.T, data []byte) {
		var set []Entry
		for ; len(data) >= 8 && len(set) < 20; data = data[8:] {
			e := Entry{
				Hash: hash(100 + len(set)), Source: "shop", Kind: Kind(data[0]),
				Time: int64(int8(data[1])) * 300, Payment: string(data[2:3]), Object: string(data[3:4]),
				Amount:   int64(int8(data[4])) << (data[5] % 64),
				Currency: []string{"EUR", "USD", ""}[data[6]%3],
			}
			if e.Kind.IsDecision() {
				e.Target = hash(100 + int(data[3])%20)
			}
			set = append(set, e)
		}
		var l lattice
		l.set(t, set)
	})
}
