package order

// Compare is the total order in which a fold tries the entries of a set: second of
// the provider's time (undated last), then rank of the kind, then hash.
func Compare(a, b Entry) int { return compare(&a, &b) }
