package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/pkg/effect"
	"sluice/pkg/postgres"
	"sluice/services/sluice/terminal"
)

type effectsCmd struct {
	List      effectsListCmd  `cmd:"" help:"What must be done outside and is not, and what failed, the oldest first."`
	Show      effectsShowCmd  `cmd:"" help:"One effect: what caused it, every attempt, what is sent."`
	SendAgain effectsAgainCmd `cmd:"" name:"send-again" help:"Have what failed attempted anew, under the same key."`
}

type effectsListCmd struct {
	desk
	State  []string `help:"Only these: pending, leased, done, withdrawn, failed. By default all but done and withdrawn, and all of one order's." placeholder:"STATE"`
	Effect string   `help:"Only this one." placeholder:"NAME"`
	Order  string   `help:"Only this order's." placeholder:"ORDER"`
	Limit  int      `help:"At most so many." default:"100"`
}

func (effectsListCmd) Help() string {
	return `Examples:
  sluice effects list                          what is not done
  sluice effects list --state failed           what somebody must look at
  sluice effects list --order A-1001           everything that an order caused
  sluice effects list --json | jq '.[].key'

Settings:
  DATABASE_URL and what belongs to it (sluice processor --help)`
}

func (r effectsListCmd) Run(ctx context.Context, c *console) error {
	f := postgres.EffectFilter{Effect: r.Effect, Order: r.Order, Limit: r.Limit}
	for _, word := range r.State {
		s, err := effect.ParseState(word)
		if err != nil {
			return usageError{fmt.Errorf("--state: %w", err)}
		}
		f.States = append(f.States, s)
	}
	if len(f.States) == 0 && f.Order == "" {
		f.States = []effect.State{effect.Pending, effect.Leased, effect.Failed}
	}
	store, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	found, err := store.ListEffects(ctx, f)
	if err != nil {
		return err
	}
	return r.say(c, found, func(p *terminal.Printer) { printEffects(p, found) })
}

type effectsShowCmd struct {
	desk
	Key string `arg:"" help:"The effect's key, as in the list and in Idempotency-Key."`
}

func (effectsShowCmd) Help() string {
	return `Examples:
  sluice effects show fulfil_a093f4149346f16eda5d9951f87f0542
  sluice effects show fulfil_a093f4149346f16eda5d9951f87f0542 --json | jq -r .body`
}

func (r effectsShowCmd) Run(ctx context.Context, c *console) error {
	key, err := keyOf(r.Key)
	if err != nil {
		return err
	}
	store, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	found, err := store.EffectCase(ctx, key)
	if err != nil {
		return err
	}
	return r.say(c, found, func(p *terminal.Printer) { printEffectCase(p, found) })
}

func keyOf(text string) (effect.Key, error) {
	key, ok := effect.ParseKey(text)
	if !ok {
		return key, usageError{fmt.Errorf("%q is no effect's key: it ends in _ and 32 hexadecimal digits", text)}
	}
	return key, nil
}

type effectsAgainCmd struct {
	desk
	Keys   []string `arg:"" optional:"" help:"Keys of effects that failed."`
	Failed string   `help:"Instead: every one of this effect that failed." placeholder:"NAME"`
	As     string   `help:"Who you are, for the audit log." env:"USER" placeholder:"NAME"`
	Reason string   `help:"Why, for the audit log." required:"" placeholder:"TEXT"`
}

func (effectsAgainCmd) Help() string {
	return `The attempts begin anew, with the same body and under the same Idempotency-Key: a receiver that acts once for
each key acts once, even if an attempt that seemed to fail had reached it. Review items are settled.

Examples:
  sluice effects send-again fulfil_a093f4149346f16eda5d9951f87f0542 --reason "the receiver is mended"
  sluice effects send-again --failed fulfil --reason "the receiver was down over night"`
}

// againLimit bounds what is read at a time.
const againLimit = 500

// sentAgain is what send-again did.
type sentAgain struct {
	Sent   []string          `json:"sent_again"`
	Others map[string]string `json:"not_sent_again,omitempty"` // why not
}

func (r effectsAgainCmd) Run(ctx context.Context, c *console) error {
	if (len(r.Keys) == 0) == (r.Failed == "") {
		return usageError{errors.New("name keys, or --failed EFFECT")}
	}
	if err := named(r.As); err != nil {
		return usageError{err}
	}
	var keys []effect.Key
	for _, text := range r.Keys {
		key, err := keyOf(text)
		if err != nil {
			return err
		}
		keys = append(keys, key)
	}
	store, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	done := sentAgain{Sent: []string{}, Others: map[string]string{}}
	send := func(key effect.Key, text string) (sent bool) {
		if err := store.SendEffectAgain(ctx, time.Now(), key, r.As, r.Reason); err != nil {
			done.Others[text] = err.Error()
			return false
		}
		done.Sent = append(done.Sent, text)
		return true
	}
	for i, key := range keys {
		send(key, r.Keys[i])
	}
	for more := r.Failed != ""; more; {
		if keys, err = store.FailedEffects(ctx, r.Failed, againLimit); err != nil {
			return err
		}
		more = false
		for _, key := range keys {
			more = send(key, key.Text(r.Failed)) || more
		}
	}
	_ = store.WakeRelays(ctx) // only a hint
	if err := r.say(c, done, func(p *terminal.Printer) { printSentAgain(p, done, r.Failed) }); err != nil {
		return err
	}
	if len(done.Others) > 0 {
		return fmt.Errorf("not sent again: %d", len(done.Others))
	}
	return nil
}

func printEffects(p *terminal.Printer, found []postgres.EffectSummary) {
	if len(found) == 0 {
		p.Line("%s", p.Green("none"))
		return
	}
	rows := [][]string{{"key", "order", "caused by", "since (UTC)", "state", "attempts"}}
	for _, e := range found {
		rows = append(rows, []string{e.Key, e.Order, causeOf(e), stamp(e.CreatedAt), effectState(p, e), attemptsOf(e)})
	}
	p.Table(rows)
	p.Line("\n%s", p.Dim("sluice effects show KEY"))
}

func causeOf(e postgres.EffectSummary) string {
	text := words(e.Fact.Kind.String())
	if e.Fact.Payment != "" {
		text += " " + e.Fact.Payment
	}
	if e.Fact.Object != "" {
		text += " " + e.Fact.Object
	}
	return text
}

func effectState(p *terminal.Printer, e postgres.EffectSummary) string {
	text := e.State.String()
	switch e.State {
	case effect.Pending:
		text += ", due " + stamp(e.DueAt)
	case effect.Done:
		text = p.Green(text)
	case effect.Failed:
		text = p.Red(text)
	}
	if e.Outdated {
		text += p.Yellow(", outdated")
	}
	return text
}

func attemptsOf(e postgres.EffectSummary) string {
	text := fmt.Sprint(e.Attempts)
	switch {
	case e.LastClass != "" && e.LastStatus != 0:
		text += fmt.Sprintf(", the last: %s (HTTP %d)", words(e.LastClass), e.LastStatus)
	case e.LastClass != "":
		text += ", the last: " + words(e.LastClass)
	case e.LastStatus != 0:
		text += fmt.Sprintf(", the last: HTTP %d", e.LastStatus)
	}
	return text
}

func printEffectCase(p *terminal.Printer, c postgres.EffectCase) {
	p.Line("%s  %s", p.Bold(c.Key), effectState(p, c.EffectSummary))
	p.Table([][]string{
		{"order", fmt.Sprintf("%s, version %d", c.Order, c.Version)},
		{"caused by", causeOf(c.EffectSummary) + " of " + c.Fact.Source},
		{"since", stamp(c.CreatedAt)},
	})
	p.Title("Attempts")
	rows := [][]string{{"attempt", "at (UTC)", "took", "answer", ""}}
	for _, a := range c.Log {
		answer := p.Green("done")
		if a.Class != "" {
			answer = p.Red(words(a.Class))
		}
		if a.Status != 0 {
			answer += fmt.Sprintf(" (HTTP %d)", a.Status)
		}
		rows = append(rows, []string{fmt.Sprint(a.Attempt), a.StartedAt.UTC().Format(time.DateTime), fmt.Sprintf("%d ms", a.LatencyMS), answer, p.Dim(shorten(a.Answer, 60))})
	}
	if len(c.Log) == 0 {
		p.Line("  none has come to an end")
	} else {
		p.Table(rows)
	}
	if c.Body != "" {
		p.Title("Body")
		p.Line("%s", c.Body)
	}
	if c.State == effect.Failed {
		p.Line("\n%s", p.Dim("sluice effects send-again "+c.Key+" --reason …"))
	}
}

func printSentAgain(p *terminal.Printer, done sentAgain, name string) {
	for _, key := range done.Sent {
		p.Line("%s %s", p.Green("✓"), key)
	}
	for _, why := range done.Others {
		p.Line("%s %s", p.Red("✗"), why)
	}
	if len(done.Sent)+len(done.Others) == 0 {
		p.Line("none of the effect %q failed", name)
	}
}
