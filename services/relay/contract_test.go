package relay

import (
	"testing"

	"sluice/pkg/contract/validate"
	"sluice/pkg/kafka"
	"sluice/schemas"
)

func TestACursorIsThatOfTheContract(t *testing.T) {
	v, err := validate.New(schemas.FS)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []cursor{{1, "a", 1}, {1 << 62, "заказ \"7\"\\\n", 1 << 62}} {
		if err := v.Record(kafka.Cursors, []byte("0"), c.encode(), nil); err != nil {
			t.Errorf("%s: %v", c.encode(), err)
		}
	}
	if n := len(v.Fields("sluice.relay-cursor.v1")); n != 3 {
		t.Errorf("the contract has %d members, the program writes 3", n)
	}
}
