package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"sluice/pkg/kafka"
	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/pkg/replay"
	"sluice/services/processor"
	"sluice/services/sluice/again"
	replaying "sluice/services/sluice/replay"
	"sluice/services/sluice/terminal"
)

// replaySelection is what to look at again by what it is, instead of where it lies.
// The command looks itself, by the processor's own rules.
type replaySelection struct {
	Event       string `help:"The event with this id." placeholder:"ID"`
	Source      string `help:"Of which source, where several have such an event." placeholder:"SOURCE"`
	Order       string `help:"Every event of this order." placeholder:"ID"`
	Provider    string `help:"Every record of this provider, from where a target says (--by-duration 2h)." placeholder:"NAME"`
	Held        bool   `help:"Everything that is held."`
	DeadLetters bool   `help:"Everything that nobody could read and nobody has settled."`
	Endpoint    string `help:"With --dead-letters: only of this endpoint." placeholder:"NAME"`
	OfReason    string `help:"With --held or --dead-letters: only of this reason, like awaiting_order or body." placeholder:"REASON"`

	Reapply bool     `help:"Read known events anew too, under the present rules: after a fixed bug. Also with a target alone."`
	Verdict []string `help:"With --reapply: only events that are now held, dead, no_change or applied, like held,dead." placeholder:"VERDICT"`
}

// given says whether any flag of the selection is there.
func (s replaySelection) given() bool {
	return s.Event != "" || s.Source != "" || s.Order != "" || s.Provider != "" || s.Held || s.DeadLetters || s.Endpoint != "" || s.OfReason != "" ||
		s.Reapply || s.Verdict != nil
}

// ofSpan: the selection is made in a span that a target names.
func (s replaySelection) ofSpan() bool {
	return s.Provider != "" || s.Reapply && s.Event == "" && s.Order == "" && !s.Held && !s.DeadLetters
}

// verdicts are the names of --verdict.
var verdicts = map[string]order.Verdict{"held": order.Held, "dead": order.Dead, "no_change": order.NoChange, "applied": order.Applied}

// heldReason is the reason with a name.
func heldReason(name string) (order.Reason, error) {
	var all []string
	for r := order.AwaitingOrder; r <= order.OutsideWindow; r++ {
		if r.String() == name {
			return r, nil
		}
		all = append(all, r.String())
	}
	return 0, fmt.Errorf("--of-reason: %q is none of %s", name, strings.Join(all, ", "))
}

// asked reads the flags; span is the target's, if there is one.
func (s replaySelection) asked(span *replay.Target) (sel again.Selection, anew *processor.Anew, err error) {
	switch ways := count(s.Event != "", s.Order != "", s.Held, s.DeadLetters, s.ofSpan()); {
	case ways > 1:
		err = errors.New("--event, --order, --held, --dead-letters and --provider are different selections; give one")
	case ways == 0 && s.Source != "":
		err = errors.New("--source goes with --event")
	case ways == 0:
		err = errors.New("--endpoint and --of-reason go with --dead-letters or --held, --verdict goes with --reapply")
	case s.Source != "" && s.Event == "":
		err = errors.New("--source goes with --event")
	case s.Endpoint != "" && !s.DeadLetters:
		err = errors.New("--endpoint goes with --dead-letters")
	case s.OfReason != "" && !s.DeadLetters && !s.Held:
		err = errors.New("--of-reason goes with --dead-letters or --held")
	case s.Verdict != nil && !s.Reapply:
		err = errors.New("--verdict goes with --reapply")
	case s.ofSpan() && span == nil:
		err = errors.New("say from where on, like --by-duration 2h or --to-earliest")
	case !s.ofSpan() && span != nil:
		err = errors.New("a target like --by-duration goes with --provider, or with --reapply alone")
	}
	if err != nil {
		return sel, nil, err
	}
	sel = again.Selection{Event: s.Event, Source: s.Source, Order: s.Order, Held: s.Held, DeadLetters: s.DeadLetters, Endpoint: s.Endpoint, Span: span, Provider: s.Provider}
	switch {
	case s.Held && s.OfReason != "":
		if sel.HeldReason, err = heldReason(s.OfReason); err != nil {
			return sel, nil, err
		}
	case s.DeadLetters:
		sel.Reason = s.OfReason
	}
	if !s.Reapply {
		return sel, nil, nil
	}
	anew = &processor.Anew{}
	for _, name := range s.Verdict {
		v, ok := verdicts[name]
		if !ok {
			return sel, nil, fmt.Errorf("--verdict: %q is none of held, dead, no_change, applied", name)
		}
		anew.Verdicts = append(anew.Verdicts, v)
	}
	return sel, anew, nil
}

// words are the flags as one may give them again.
func (s replaySelection) words(target string) string {
	var words []string
	add := func(given bool, text string) {
		if given {
			words = append(words, text)
		}
	}
	add(s.Event != "", "--event "+s.Event)
	add(s.Source != "", "--source "+s.Source)
	add(s.Order != "", "--order "+s.Order)
	add(s.Provider != "", "--provider "+s.Provider)
	add(s.Held, "--held")
	add(s.DeadLetters, "--dead-letters")
	add(s.Endpoint != "", "--endpoint "+s.Endpoint)
	add(s.OfReason != "", "--of-reason "+s.OfReason)
	add(target != "", target)
	add(s.Reapply, "--reapply")
	add(s.Verdict != nil, "--verdict "+strings.Join(s.Verdict, ","))
	return strings.Join(words, " ")
}

// selectionPlan is what looking at a selection again would do.
type selectionPlan struct {
	Selected string `json:"selected"`
	// Outlook is what a dry run says; Forecast, with --reapply, which orders come to
	// something else.
	Outlook  *replaying.Outlook `json:"outlook"`
	Found    *again.Tally       `json:"found"`
	Forecast *again.Forecast    `json:"forecast,omitempty"`
	Digest   string             `json:"digest"`
}

// look is one command that looks at records again.
type look struct {
	settings processorSettings
	store    *postgres.Store
	source   *again.Source
	deps     processor.AgainDeps
}

func openLook(ctx context.Context, d desk) (*look, error) {
	e, err := running(d.DataDir)
	if err != nil {
		return nil, err
	}
	l := &look{}
	if l.settings, err = read[processorSettings](e); err != nil {
		return nil, err
	}
	endpoints, err := l.settings.Deployment.readings()
	if err != nil {
		return nil, err
	}
	if l.store, err = postgres.Open(ctx, l.settings.Database, 4); err != nil {
		return nil, err
	}
	log := slog.New(slog.DiscardHandler)
	if err := l.settings.Effects.agree(ctx, l.store); err != nil {
		l.store.Close()
		return nil, fmt.Errorf("what is looked at again may cause effects: %w", err)
	}
	if l.source, err = again.Open(ctx, l.settings.Kafka, l.store, log); err != nil {
		l.store.Close()
		return nil, err
	}
	l.deps = processor.AgainDeps{Store: l.store, Endpoints: endpoints, Mode: l.settings.Deployment.Mode, Log: log, Now: time.Now,
		Window: l.store.WindowAt(time.Now()), Journal: l.settings.Processor.KeepBodies > 0}
	return l, nil
}

func (l *look) Close() {
	l.source.Close()
	l.store.Close()
}

// run plans, and if acts says so carries out, looking at the selection again.
func (s replaySelection) run(ctx context.Context, c *console, offsets replayOffsets, acts replayActs, d desk) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	var span *replay.Target
	var target string
	if offsets.given() {
		var names kafka.Config // a file of offsets names them, and nothing else asks for them
		if offsets.FromFile != "" {
			e, err := running(d.DataDir)
			if err != nil {
				return err
			}
			if names, err = read[kafka.Config](e); err != nil {
				return err
			}
		}
		asked, err := offsets.asked(time.Now(), names.Topic(kafka.Group), names.Topic(kafka.Raw), os.Stdin)
		if err != nil {
			return usageError{err}
		}
		span, target = &asked.Target, targetWords(asked.Target, asked.Words)
	}
	sel, anew, err := s.asked(span)
	if err != nil {
		return usageError{err}
	}
	l, err := openLook(ctx, d)
	if err != nil {
		return err
	}
	defer l.Close()
	l.deps.Anew = anew
	plan, err := l.plan(ctx, c, sel, s.words(target), d)
	if err != nil {
		return brokenOff(err)
	}
	if s.Event != "" && plan.finds() == 0 {
		return fmt.Errorf("find event %s: neither an order, nor a dead letter, nor the raw topic has it; sluice explain %[1]s says what is known", s.Event)
	}
	if !d.JSON || !acts.Execute {
		err := d.say(c, plan, func(p *terminal.Printer) {
			plan.print(p)
			switch {
			case plan.finds() == 0:
				p.Line("\n%s", p.Green("no record is meant by that; there is nothing to do"))
			case !acts.Execute && !plan.known():
				p.Line("\n%s\n  sluice replay %s --execute --plan %s --reason …", p.Dim("nothing was changed; to do it:"), plan.Selected, plan.Digest)
			}
		})
		if err != nil || !acts.Execute || plan.finds() == 0 {
			return err
		}
	}
	if err := acts.agree(c, plan.Digest); err != nil {
		return err
	}
	return l.execute(ctx, c, sel, plan, acts, d)
}

// targetWords name a target by what it was at the time, so that the same words mean
// the same later.
func targetWords(t replay.Target, words string) string {
	if !t.At.IsZero() {
		words = "--to-datetime " + exactly(t.At)
	}
	if t.Partitions != nil {
		words += " --partitions " + strings.Trim(strings.ReplaceAll(fmt.Sprint(t.Partitions), " ", ","), "[]")
	}
	return words
}

// plan finds out what looking would do by a dry run, and of what is read anew also, in
// a shadow of the live orders, what each order would come to.
func (l *look) plan(ctx context.Context, c *console, sel again.Selection, words string, d desk) (*selectionPlan, error) {
	plan := &selectionPlan{Selected: words}
	var bar *terminal.Bar
	defer end(&bar)
	n, err := l.source.Estimate(ctx, sel)
	if err != nil {
		return nil, err
	}
	bar = d.progress(c.err).Bar(int(n))
	outlook, tally, err := l.source.Outlook(ctx, sel, processor.DryRunDeps{Store: l.store, Endpoints: l.deps.Endpoints, Mode: l.deps.Mode, Log: l.deps.Log, Now: l.deps.Now}, l.deps.Anew, bar.Add)
	end(&bar)
	if err != nil {
		return nil, err
	}
	plan.Outlook, plan.Found = &replaying.Outlook{Outlook: outlook, Anew: l.deps.Anew != nil}, &tally
	// What live traffic adds meanwhile was read by the present rules, and is no other plan.
	agreed := []any{words, plan.Outlook.Agreed(), tally.Gone}
	if l.deps.Anew != nil {
		rules, err := l.settings.Effects.rules()
		if err != nil {
			return nil, err
		}
		f, err := l.source.Forecast(ctx, sel, l.deps, again.Shadowing{Database: l.settings.Database, Effects: rules,
			Total: func(n int) { bar = d.progress(c.err).Bar(n) }, Step: func(n int) { bar.Add(n) }})
		if err != nil {
			return nil, err
		}
		plan.Forecast = &f
		agreed = append(agreed, f.Mended, f.Entered, f.New, f.Revived, f.Unlearnt, f.Orders)
	}
	plan.Digest = replay.Digest(agreed)
	return plan, nil
}

// execute does what was planned, under an entry of the audit log that is there before
// anything is done.
func (l *look) execute(ctx context.Context, c *console, sel again.Selection, plan *selectionPlan, acts replayActs, d desk) error {
	action := "replay.selection"
	if l.deps.Anew != nil {
		action = "replay.reapply"
	}
	entry := postgres.AuditEntry{Who: acts.As, Action: action, Reason: acts.Reason, Subject: plan.Selected, After: map[string]string{"plan": plan.Digest}}
	if err := l.audit(ctx, entry); err != nil {
		return err
	}
	var err error
	if l.deps.Window, err = l.store.EnsurePartitions(ctx, time.Now()); err != nil {
		return err
	}
	n, err := l.source.Estimate(ctx, sel)
	if err != nil {
		return err
	}
	bar := d.progress(c.err).Bar(int(n))
	done, err := l.source.Look(ctx, sel, l.deps, bar.Add)
	bar.End()
	entry.Action, entry.After = action+".done", done
	if err != nil {
		entry.Action = action + ".broken_off"
	}
	if e := l.audit(context.WithoutCancel(ctx), entry); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("it was broken off after %d records, which stay done; run it again, nothing is done twice: %w", done.AgainCounts.Records, err)
	}
	return d.say(c, done, func(p *terminal.Printer) { printDone(p, "Done", &done) })
}

func (l *look) audit(ctx context.Context, e postgres.AuditEntry) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	e.At = time.Now()
	return l.store.InTx(ctx, func(tx postgres.Tx) error { return tx.AddAuditEntry(ctx, e) })
}

// finds is how many records or events are meant.
func (plan *selectionPlan) finds() int64 {
	return plan.Found.Records + plan.Found.InFlight + plan.Found.Gone
}
