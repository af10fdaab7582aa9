package webhook

import (
	"testing"
	"time"
)

func TestEveryBuiltinProviderSaysHowLongItRepeats(t *testing.T) {
	for _, name := range BuiltinNames() {
		if _, ok := retrySpans[name]; !ok {
			t.Errorf("how long %s repeats a delivery is not known", name)
		}
	}
	p, _ := Builtin("stripe")
	if got := RetrySpan(p); got != 72*time.Hour {
		t.Errorf("stripe repeats for %v", got)
	}
}

func TestADeclaredProviderRepeatsAsItSaysOrAsLongAsAny(t *testing.T) {
	for said, want := range map[time.Duration]time.Duration{0: LongestRetries, time.Hour: time.Hour} {
		p, err := NewDeclared(Declaration{Name: "shop", Retries: said,
			Signature: Signature{Header: "X-Sig", Algorithm: "sha256", Encoding: "hex"}, Reading: Layout{ID: Paths{"id"}, Type: Paths{"type"}}})
		if err != nil {
			t.Fatal(err)
		}
		if got := RetrySpan(p); got != want {
			t.Errorf("said %v, taken for %v", said, got)
		}
	}
	if _, err := NewDeclared(Declaration{Name: "shop", Retries: -time.Hour,
		Signature: Signature{Header: "X-Sig", Algorithm: "sha256", Encoding: "hex"}, Reading: Layout{ID: Paths{"id"}, Type: Paths{"type"}}}); err == nil {
		t.Error("a negative span was accepted")
	}
}
