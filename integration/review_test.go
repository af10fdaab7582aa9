package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/integration/harness"
)

// people are a deployment's review desk: every call is a process of its own, as
// several people at several machines are.
type people struct {
	*harness.Deployment
	env []string
}

// says runs `sluice review …` and returns what it says and its exit code.
func (p people) says(args ...string) (string, int) {
	p.T.Helper()
	cmd := exec.CommandContext(p.T.Context(), harness.Program(p.T), append([]string{"review"}, args...)...)
	cmd.Env = slices.Concat(os.Environ(), p.Env(), p.env)
	said, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		p.T.Fatalf("sluice review %v: %v", args, err)
	}
	return string(said), cmd.ProcessState.ExitCode()
}

// does is says for what must succeed.
func (p people) does(args ...string) string {
	p.T.Helper()
	said, code := p.says(args...)
	if code != 0 {
		p.T.Fatalf("sluice review %v ended with %d:\n%s", args, code, said)
	}
	return said
}

// item waits for the open item of an order, and returns its number.
func (p people) item(order string) (id string) {
	p.T.Helper()
	harness.Eventually(p.T, "there is an item about order "+order, 30*time.Second, func() error {
		var items []struct {
			ID    int64  `json:"id"`
			Order string `json:"order"`
		}
		said := p.does("list", "--json")
		if err := json.Unmarshal([]byte(said), &items); err != nil {
			return fmt.Errorf("%w: %s", err, said)
		}
		for _, i := range items {
			if i.Order == order {
				id = fmt.Sprint(i.ID)
				return nil
			}
		}
		return fmt.Errorf("the list is %s", said)
	})
	return id
}

// atOnce has several people decide on one item, each after an attempt to claim it, and
// returns who did what with success. Whoever did not must be told why.
func (p people) atOnce(item string, whoAndWhat ...[2]string) (decided []string) {
	p.T.Helper()
	var all sync.WaitGroup
	var mu sync.Mutex
	for _, d := range whoAndWhat {
		all.Go(func() {
			_, _ = p.says("claim", item, "--as", d[0])
			said, code := p.says(d[1], item, "--as", d[0], "--reason", "the rest was paid in cash", "--json")
			mu.Lock()
			defer mu.Unlock()
			switch {
			case code == 0 && strings.Contains(said, `"repeated": false`):
				decided = append(decided, d[1])
			case code != 0 && !strings.Contains(said, "claimed") && !strings.Contains(said, "settled already"):
				p.T.Errorf("%v: %s", d, said)
			}
		})
	}
	all.Wait()
	return decided
}

// O46: twenty people decide on one item at once; the relay is killed before the effect
// is done, and the decision is repeated; an outdated item and a settled one are refused
// with the state as it is. Each item is acted upon once.
func TestWhatTwentyPeopleAcceptHappensOnce(t *testing.T) { // O46
	d, o := harness.New(t, 1), newOutside(t)
	env := append(o.declare(""), "SLUICE_HELD_GRACE=1ms", "SLUICE_PROCESSOR_CHORES=200ms")
	desk := people{d, env}
	ingress, merchant := d.Start("ingress"), d.Start("merchant", env...)
	d.Start("processor", env...)
	relay := d.Start("relay", env...)
	tooLittle := func(order string) (item string) {
		d.Register(merchant, order, 300)
		d.Accept(ingress, harness.Stripe(harness.Intent("evt_"+order, "succeeded", order, "pi_"+order, 250, time.Now())))
		return desk.item(order)
	}

	o.when(func(int) bool { return false }, nil) // no call gets through while this relay lives
	item := tooLittle("H-1")
	var twenty [][2]string
	for n := range 20 {
		twenty = append(twenty, [2]string{fmt.Sprintf("person-%d", n%4), "accept"})
	}
	if decided := desk.atOnce(item, twenty...); len(decided) != 1 {
		t.Fatalf("decided: %v; want one acceptance", decided)
	}
	harness.Eventually(t, "the effect was attempted", 30*time.Second, func() error {
		if len(o.seen()) == 0 {
			return errors.New("no call")
		}
		return nil
	})
	relay.Kill()
	o.when(nil, nil)
	d.Start("relay", env...)
	desk.atOnce(item, twenty[:4]...) // the one who accepted it repeats it, and the rest try
	waitDone(d, 1)
	if acts := o.acts(); acts != 1 {
		t.Errorf("%d acts, want one", acts)
	}
	o.same() // the key is the one from before the kill
	if n := d.Count(`SELECT count(*) FROM audit_log`); n != 1 {
		t.Errorf("%d lines in the audit log, want one", n)
	}

	item = tooLittle("H-2") // one person, two windows
	if decided := desk.atOnce(item, [2]string{"anna", "accept"}, [2]string{"anna", "dismiss"}, [2]string{"anna", "accept"}, [2]string{"anna", "dismiss"}); len(decided) != 1 {
		t.Errorf("decided: %v; want one decision", decided)
	}
	if said, code := desk.says("claim", item, "--as", "bo"); code != 1 || !strings.Contains(said, "settled already") || !strings.Contains(said, "anna") {
		t.Errorf("a settled item is claimed: %d %s", code, said)
	}

	pay(d, ingress, merchant, "H-3") // paid twice, and given back while somebody looks at it
	d.Accept(ingress, harness.Stripe(harness.Intent("evt_H-3b", "succeeded", "H-3", "pi_H-3b", 300, time.Now())))
	item = desk.item("H-3")
	desk.does("claim", item, "--as", "anna")
	d.Accept(ingress, harness.Stripe(harness.RefundTotal("evt_H-3c", "H-3", "pi_H-3", 300, 300, time.Now())))
	d.Becomes("H-3", "refunded")
	said, code := desk.says("accept", item, "--as", "anna", "--reason", "why not")
	if code != 1 || !strings.Contains(said, "refunded") || !strings.Contains(said, "sluice review claim "+item) {
		t.Errorf("an outdated item: %d %s", code, said)
	}
	if n := d.Count(`SELECT count(*) FROM audit_log`); n != 2 {
		t.Errorf("%d lines in the audit log, want two", n)
	}
	d.Sound(nil)
}
