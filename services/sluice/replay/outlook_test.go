package replay_test

import (
	"bytes"
	"strings"
	"testing"

	"sluice/pkg/order"
	"sluice/pkg/replay"
	"sluice/services/processor"
	replaying "sluice/services/sluice/replay"
	"sluice/services/sluice/terminal"
)

func TestWhatWasAgreedOnIsWhatWouldChange(t *testing.T) {
	digest := func(o processor.Outlook) string { return replay.Digest(replaying.Outlook{Outlook: o}.Agreed()) }
	none := digest(processor.Outlook{})
	for name, same := range map[string]processor.Outlook{
		"live traffic":         {Records: 9, Duplicates: 7, Tombstones: 1, Hints: 1},
		"a dead letter, kept":  {Records: 1, Dead: map[string]int64{"unreadable": 1}},
		"another choice shown": {Samples: processor.Samples{Orders: []processor.OrderSample{{Order: "A"}}}},
	} {
		if digest(same) != none {
			t.Errorf("%s: another plan", name)
		}
	}
	for name, other := range map[string]processor.Outlook{
		"a new event":    {New: 1},
		"a dead letter":  {NewlyDead: 1},
		"an order":       {Orders: 1, Steps: []processor.Step{{From: order.Pending, To: order.Paid, Orders: 1}}},
		"a correction":   {Messages: 1, Corrections: 1},
		"an effect":      {Effects: []processor.EffectOutlook{{Effect: "ship", Caused: 1}}},
		"another effect": {Effects: []processor.EffectOutlook{{Effect: "mail", Caused: 1}}},
		"a question":     {Review: []processor.ReviewOutlook{{Kind: "body_changed", Opened: 1}}},
	} {
		if digest(other) == none {
			t.Errorf("%s: the same plan", name)
		}
	}
}

func TestADryRunIsToldInFiguresAndSamples(t *testing.T) {
	o := replaying.Outlook{Outlook: processor.Outlook{Records: 12, Duplicates: 9, New: 3, Applied: 2, Held: map[string]int64{"awaiting_payment": 1}, Orders: 2,
		Steps: []processor.Step{{From: order.Pending, To: order.Paid, Orders: 2}}, Messages: 2, Corrections: 1,
		Effects: []processor.EffectOutlook{{Effect: "ship", Caused: 2}},
		Samples: processor.Samples{Orders: []processor.OrderSample{{Order: "A-1", From: order.Pending, To: order.Paid, Messages: 1, Source: "stripe", Event: "evt_1"}}}}}
	var out bytes.Buffer
	o.Print(terminal.New(&out))
	for _, want := range []string{"duplicates, which change nothing  9", "new, and taken over               3", "held                            1", "corrections                     1",
		"effects                           2", "pending → paid", "ship caused", "A-1", "by evt_1 of stripe", "awaiting payment"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("not said: %s", want)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
}
