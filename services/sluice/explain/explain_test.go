package explain

import (
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/pkg/event"
	"sluice/pkg/lookup"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
	"sluice/pkg/webhook"
	"sluice/services/sluice/sample"
)

// O26, O27: an order whose events came in the wrong order.
func TestAnOutOfOrderStoryIsToldInTheOrderInWhichItHappened(t *testing.T) {
	w := newWorld(t)
	w.outOfOrder()
	x := w.explainer()
	golden(t, "order.txt", text(w.ask(x, Question{ID: "A-1"})))
	golden(t, "event.txt", text(w.ask(x, Question{ID: "evt_paid"})))
	golden(t, "deliveries.txt", text(w.ask(x, Question{ID: "evt_paid", Deliveries: true})))
	golden(t, "held.txt", text(w.ask(x, Question{ID: "evt_cancelled"})))
	golden(t, "payment.txt", text(w.ask(x, Question{ID: "pi_A-1"})))
	if a := w.ask(x, Question{ID: "evt_paid"}); a.Event.Before.Status != order.Cancelled || a.Event.After.Status != order.PartiallyRefunded ||
		a.Event.Signature.Verdict != sigValid {
		t.Errorf("the event is %+v", a.Event)
	}
	if a := w.ask(x, Question{ID: "evt_cancelled"}); len(a.Event.Messages) != 1 || a.Event.Messages[0] != "A-1.2" {
		t.Errorf("it caused the messages %v", a.Event.Messages)
	}
	document, err := json.MarshalIndent(w.ask(x, Question{ID: "evt_paid"}), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "event.json", string(document)+"\n")
}

func TestTheReadmeShowsWhatIsPrinted(t *testing.T) {
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	shown, err := os.ReadFile("testdata/event.txt")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), "$ sluice explain evt_paid\n"+string(shown)+"```") {
		t.Error("README.md shows another `sluice explain evt_paid` than testdata/event.txt")
	}
}

func TestWithoutKafkaAndEndpointsItSaysWhatItCouldNotLookAt(t *testing.T) {
	w := newWorld(t)
	w.outOfOrder()
	x := &Explainer{Store: w.store, NoTopics: "no broker answers", Secrets: Secrets{Problem: "no endpoints file here"}}
	a := w.ask(x, Question{ID: "evt_cancelled"}) // held: the database keeps its bytes
	if e := a.Event; e.Receipt.BytesFrom != "" || !strings.Contains(e.Signature.Why, "no broker answers") || len(a.NotLookedAt) != 1 {
		// It was applied before it was held, so that only the topic has its bytes.
		t.Errorf("the event is %+v, %+v", e.Receipt, e.Signature)
	}
	if _, err := x.Explain(t.Context(), Question{ID: "evt_nobody"}); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "no broker answers") {
		t.Errorf("an unknown id: %v", err)
	}
	w.post("stripe-eu", noon, sample.Fact{Kind: order.KindPaid, ID: "evt_early", Order: "B-1", Payment: "pi_B-1", Amount: 100, Time: noon})
	w.settled()
	a = w.ask(x, Question{ID: "evt_early"})
	if e := a.Event; e.Receipt.BytesFrom != "held_events" || e.Signature.Verdict != sigNotVerified || e.Signature.Why != "no endpoints file here" ||
		e.Verdict.Reason != order.AwaitingOrder || a.Order.Registered != nil {
		t.Errorf("the held event is %+v, %+v, %+v", e.Receipt, e.Signature, e.Verdict)
	}
	x.Secrets = Secrets{Endpoints: w.endpoints}
	if s := w.ask(x, Question{ID: "evt_early"}).Event.Signature; s.Verdict != sigValid || s.Secret != fileSecret {
		t.Errorf("its signature is %+v", s)
	}
}

func TestBytesThatWereChangedAreFoundOut(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.post("stripe-eu", noon, sample.Fact{Kind: order.KindPaid, ID: "evt_early", Order: "B-1", Payment: "pi_B-1", Amount: 100, Time: noon})
	w.settled()
	w.exec(`UPDATE held_events SET body = replace(convert_from(body, 'UTF8'), '100', '999')::bytea`)
	x := &Explainer{Store: w.store, NoTopics: "not asked", Secrets: Secrets{Endpoints: w.endpoints}}
	if s := w.ask(x, Question{ID: "evt_early"}).Event.Signature; s.Verdict != sigInvalid {
		t.Errorf("the signature of changed bytes is %+v", s)
	}
}

func TestEventsThatAreInNoSetAreFoundAmongTheRecords(t *testing.T) {
	w := newWorld(t)
	w.start()
	none := []byte(`{"id":"evt_none","type":"customer.created","created":1796032800,"livemode":true,"data":{"object":{"id":"cus_1","email":"person@example.com"}}}`)
	other := []byte(`{"id":"evt_other","type":"payment_intent.succeeded","created":1796032800,"livemode":false,"data":{"object":{"id":"pi_1","amount":1,"amount_received":1,"currency":"eur","metadata":{"order_id":"C-1"}}}}`)
	w.raw("stripe-eu", noon, none)
	w.raw("stripe-eu", noon.Add(time.Minute), none)
	w.raw("stripe-eu", noon, other)
	w.raw("stripe-eu", noon, []byte(`{"id": "evt_broken"`))
	w.settled()
	x := w.explainer()
	a := w.ask(x, Question{ID: "evt_none"})
	if e := a.Event; a.Order != nil || e.Dedupe.Verdict != "taken_over" || len(e.Dedupe.Deliveries) != 2 || e.Reading.Fact != order.KindNone || e.Verdict.Verdict != order.NoChange {
		t.Errorf("the event is %+v", e)
	}
	if e := w.ask(x, Question{ID: "evt_other"}).Event; e.Mode != "test" || e.Verdict == nil || e.Verdict.Reason != order.OtherMode {
		t.Errorf("the event of the other mode is %+v", e)
	}
	a = w.ask(x, Question{ID: "sha256:broken"})
	if e := a.Event; a.Is != "dead_letter" || e.Dead == nil || e.Dead.Reason != "body" || e.Signature.Verdict != sigValid || len(e.Reviews) != 1 {
		t.Errorf("the dead letter is %+v", e)
	}
	if w.ask(x, Question{ID: "evt_none"}).Event.Body != nil {
		t.Error("the body is shown without being asked for")
	}
}

func TestAnIDThatIsSeveralThingsIsListed(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.register(noon, "X", 100)
	w.post("stripe-eu", noon, sample.Fact{Kind: order.KindPaid, ID: "evt_1", Order: "X", Payment: "X", Amount: 100, Time: noon})
	w.post("stripe-us", noon, sample.Fact{Kind: order.KindPaid, ID: "evt_1", Order: "Y", Payment: "pi_y", Amount: 100, Time: noon})
	w.settled()
	x := w.explainer()
	var several *Ambiguous
	if _, err := x.Explain(t.Context(), Question{ID: "X"}); !errors.As(err, &several) || len(several.Matches) != 2 || !strings.Contains(err.Error(), "--as payment --source stripe-eu") {
		t.Errorf("an order and a payment: %v", err)
	}
	if _, err := x.Explain(t.Context(), Question{ID: "evt_1"}); !errors.As(err, &several) || !strings.Contains(err.Error(), "--source stripe-us") {
		t.Errorf("events of two sources: %v", err)
	}
	if a := w.ask(x, Question{ID: "evt_1", Source: "stripe-us"}); a.Order.ID != "Y" || a.Event.Source != "stripe-us" {
		t.Errorf("chosen by its source: %+v", a.Order)
	}
	if a := w.ask(x, Question{ID: "X", As: "payment"}); a.Payment == nil || a.Order.ID != "X" {
		t.Errorf("chosen by its kind: %+v", a)
	}
}

// A person's decision, and why it was made.
func TestDecisionsAndTheirReasonsAreTold(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.register(noon, "D-1", 100)
	w.post("stripe-eu", noon, sample.Fact{Kind: order.KindPaid, ID: "evt_less", Order: "D-1", Payment: "pi_d", Amount: 90, Time: noon})
	w.settled()
	x := w.explainer()
	if v := w.ask(x, Question{ID: "evt_less"}).Event.Verdict; v.Why != "it states 0.90 EUR, registered are 1.00 EUR" || v.Release == "" || v.HeldAt == nil || v.DueAt == nil {
		t.Errorf("the held event's verdict is %+v", v)
	}
	now := time.Now().Add(time.Hour)
	if err := w.store.InTx(t.Context(), func(tx postgres.Tx) error { _, err := tx.ReviewDueHeldEvents(t.Context(), now, 10); return err }); err != nil {
		t.Fatal(err)
	}
	items, err := w.store.ListReviewItems(t.Context(), now, postgres.ReviewHeld, false, 10)
	if err != nil || len(items) != 1 {
		t.Fatalf("%d review items, %v", len(items), err)
	}
	if err := w.store.ClaimReviewItem(t.Context(), now, items[0].ID, "ann"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.Decide(t.Context(), now, postgres.Decision{Item: items[0].ID, Action: postgres.Accept, Who: "ann", Reason: "the customer had a voucher"}); err != nil {
		t.Fatal(err)
	}
	a := w.ask(x, Question{ID: "evt_less"})
	if r := a.Event.Reviews; len(r) != 1 || len(r[0].Acts) != 1 || r[0].Acts[0].Reason != "the customer had a voucher" || r[0].Acts[0].Who != "ann" {
		t.Errorf("the reviews are %+v", r)
	}
	if a.Order.Now.Status != order.Paid || !a.Order.Agrees || !strings.Contains(text(a), "about evt_less") {
		t.Errorf("the order is %+v, told as\n%s", a.Order.Now, text(a))
	}
}

// A hint is shown while it waits, and since when; so is what was made of it.
func TestAHintThatWaitsForItsProviderIsTold(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.register(noon, "H-1", 100)
	fact := sample.Fact{Kind: order.KindPaid, ID: "evt_hint", Order: "H-1", Payment: "pi_h", Amount: 100, Currency: "EUR", Live: true, Time: noon}
	body, err := sample.Make("stripe", fact)
	if err != nil {
		t.Fatal(err)
	}
	w.rawAs(event.Hint, "stripe-eu", noon, body.Body)
	w.settled()
	x := w.explainer()
	e := w.ask(x, Question{ID: "evt_hint"}).Event
	if e.Dedupe.Verdict != "hint" || e.Verdict == nil || e.Verdict.Verdict != order.Held || e.Verdict.Reason != order.AwaitingProvider || e.Verdict.HeldAt == nil {
		t.Errorf("the hint is %+v, %+v", e.Dedupe, e.Verdict)
	}
	// Nothing but a hint names this payment and this order.
	forged := fact
	forged.ID, forged.Order, forged.Payment = "evt_forged", "nobody's", "pi_nobody"
	if body, err = sample.Make("stripe", forged); err != nil {
		t.Fatal(err)
	}
	w.rawAs(event.Hint, "stripe-us", noon, body.Body)
	w.settled()
	for _, id := range []string{"pi_nobody", "nobody's"} {
		if a := w.ask(x, Question{ID: id}); a.Order != nil || a.Event.ID != "evt_forged" || a.Event.Verdict.Verdict != order.Held {
			t.Errorf("%s is %+v", id, a.Event)
		}
	}
	claim := func(now time.Time) postgres.Lookup {
		ls, err := testkit.ClaimLookups(t.Context(), w.store, now, "r", "stripe-eu", 1)
		if err != nil || len(ls) != 1 {
			t.Fatalf("claimed %v, %v", ls, err)
		}
		return ls[0]
	}
	if err := w.store.RetryLookup(t.Context(), claim(time.Now()), time.Now(), postgres.LookupUnknown); err != nil {
		t.Fatal(err)
	}
	a := w.ask(x, Question{ID: "H-1"})
	if hs := a.Order.Hints; len(hs) != 1 || hs[0].ID != "evt_hint" || hs[0].Object != "pi_h" || hs[0].Attempts != 1 || hs[0].Problem != "unknown" || hs[0].HeldAt.IsZero() {
		t.Errorf("the order's hints are %+v", hs)
	}
	if as := a.Order.Asking; len(as) != 1 || as[0].Source != "stripe-eu" || as[0].Object != "pi_h" || as[0].For != "hint" || as[0].Attempts != 1 || as[0].NextAt == nil {
		t.Errorf("it is being asked about %+v", as)
	}
	if out := text(a); !strings.Contains(out, "attempt 1: the provider knows no such object") || !strings.Contains(out, "What its provider is being asked about") {
		t.Errorf("it prints\n%s", out)
	}
	looked, err := lookup.Encode(webhook.Reading{Subject: "pi_h", Mode: event.Live, Order: "H-1", Payment: "pi_h", Fact: order.KindPaid, Amount: 100, Currency: "EUR"})
	if err != nil {
		t.Fatal(err)
	}
	w.rawAs(event.LookedUp, "stripe-eu", noon, looked)
	if _, err := w.store.AnswerLookup(t.Context(), time.Now(), claim(time.Now().Add(time.Minute))); err != nil {
		t.Fatal(err)
	}
	w.settled()
	if v := w.ask(x, Question{ID: "evt_hint"}).Event.Verdict; v == nil || v.Verdict != order.NoChange {
		t.Errorf("after the answer the hint is %+v", v)
	}
	a = w.ask(x, Question{ID: "H-1"})
	if len(a.Order.Hints)+len(a.Order.Asking) != 0 || a.Order.Now.Status != order.Paid {
		t.Fatalf("after the answer the order is %+v", a.Order)
	}
	e = w.ask(x, Question{ID: a.Order.Events[len(a.Order.Events)-1].ID}).Event
	if e.Signature.Verdict != sigLookedUp || e.Verdict.Verdict != order.Applied {
		t.Errorf("what was looked up is %+v, %+v", e.Signature, e.Verdict)
	}
}

// S: secrets, signatures and bodies are nobody's business.
func TestSecretsAreNeverPrintedAndBodiesOnlyIfAskedFor(t *testing.T) {
	w := newWorld(t)
	w.outOfOrder()
	w.raw("stripe-eu", noon, []byte(`{"id":"evt_person","type":"customer.created","created":1796032800,"livemode":true,"data":{"object":{"email":"person@example.com"}}}`))
	w.raw("stripe-eu", noon, []byte(`{"id": "evt_broken", "email": "person@example.com"`))
	w.settled()
	x := w.explainer()
	signature := regexp.MustCompile(`v1=|[0-9a-f]{64}.*[0-9a-f]{64}`)
	for _, id := range []string{"A-1", "evt_paid", "evt_cancelled", "evt_refund", "pi_A-1", "evt_person", "sha256:broken"} {
		for _, body := range []bool{false, true} {
			a := w.ask(x, Question{ID: id, Body: body, Deliveries: true})
			document, err := json.Marshal(a)
			if err != nil {
				t.Fatal(err)
			}
			for _, out := range []string{text(a), string(document)} {
				if strings.Contains(out, secretValue) || strings.Contains(out, "c2VjcmV0") || signature.MatchString(out) {
					t.Errorf("%s tells a secret or a signature:\n%s", id, out)
				}
				shown := strings.Contains(out, "latest_charge") || strings.Contains(out, "person@example.com") || strings.Contains(out, "livemode")
				if asked := body && a.Event != nil; shown != asked {
					t.Errorf("%s, body asked for: %v; shown: %v", id, asked, shown)
				}
			}
		}
	}
}

func TestEveryReasonHasASentence(t *testing.T) {
	for r := order.AwaitingOrder; !strings.Contains(r.String(), "("); r++ {
		if reasons[r].why == "" {
			t.Errorf("%s is not explained", r)
		}
		if reasons[r].release == "" && r < order.OtherMode {
			t.Errorf("nothing is said to release %s", r)
		}
	}
}
