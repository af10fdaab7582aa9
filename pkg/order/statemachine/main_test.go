package main

import (
	"os"
	"testing"

	"sluice/pkg/order"
)

func TestTheDocumentIsWhatTheTablesSay(t *testing.T) {
	const path = "../../../docs/state-machine.md"
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != document() {
		t.Errorf("%s is stale; run: go run ./pkg/order/statemachine > docs/state-machine.md", path)
	}
}

func TestEveryReasonIsExplained(t *testing.T) {
	for r := order.NoReason + 1; r <= order.Dismissed; r++ {
		if int(r) >= len(meanings) || meanings[r].text == "" {
			t.Errorf("%v is not explained", r)
		}
	}
}
