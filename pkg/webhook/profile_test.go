package webhook

import (
	"testing"
	"time"

	"sluice/pkg/event"
)

func TestEveryBuiltinProviderSaysWhatPeopleShouldKnow(t *testing.T) {
	for _, name := range BuiltinNames() {
		p := builtinOf(t, name)
		f := p.Profile()
		for what, text := range map[string]string{"title": f.Title, "docs": f.Docs, "signature": f.Signature, "covers": f.Covers, "id": f.ID} {
			if text == "" {
				t.Errorf("%s says no %s", name, what)
			}
		}
		if (f.Leaves == "") != (f.Instead == "") {
			t.Errorf("%s: what is left unsigned and what is done about it go together", name)
		}
		if f.Trust != event.Signed && f.Trust != event.Hint {
			t.Errorf("%s has no trust", name)
		}
		if f.Retries < RetriesUnknown {
			t.Errorf("%s repeats for %v", name, f.Retries)
		}
		if f.Retries > LongestRetries {
			t.Errorf("%s repeats for %v, longer than what stands for whoever does not say", name, f.Retries)
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
