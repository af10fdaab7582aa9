package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
	"sluice/pkg/replay"
	replaying "sluice/services/sluice/replay"
	"sluice/services/sluice/terminal"
)

// replayOffsets is where to read from, in the habits of kafka-consumer-groups
// --reset-offsets.
type replayOffsets struct {
	ToEarliest bool    `help:"From the first record that is left."`
	ToLatest   bool    `help:"To the end: what was not applied yet is left out. Needs --skip."`
	ToCurrent  bool    `help:"Where the group is now: to see its offsets, or to --export them."`
	ToDatetime string  `help:"From the first record appended then or later: 2026-11-30T14:00:00Z, 2026-11-30T14:00 (UTC)." placeholder:"TIME"`
	ByDuration string  `help:"From so long ago, by the broker's append time: 2h30m, P1DT2H." placeholder:"DURATION"`
	ToOffset   *int64  `help:"From this offset on." placeholder:"N"`
	ShiftBy    *int64  `help:"So many records on from where the group is, or back: --shift-by=-1000." placeholder:"N"`
	FromFile   string  `help:"From the offsets of a CSV file: topic,partition,offset, as Kafka's own tool exports them; - is standard input." placeholder:"FILE"`
	Partitions []int32 `help:"Only these partitions, like 0,2." placeholder:"N"`

	Skip         bool          `help:"Let the offsets lie ahead of what was applied: what is between is never applied, and written off in the books."`
	BeyondWindow bool          `help:"Go back to where repeats are no longer recognised by the event's id alone; the plan says what that means."`
	DryRun       bool          `help:"Read the records and say what each would do." default:"true" negatable:""`
	Export       bool          `help:"Print only the offsets that the plan would set, as CSV for --from-file."`
	Wait         time.Duration `help:"How long processors may take to pause before it is given up; live traffic waits as long." default:"10s"`
}

// ways are the flags of which one is given.
func (o replayOffsets) ways() (given []replay.How) {
	for _, way := range []struct {
		how   replay.How
		given bool
	}{
		{replay.ToEarliest, o.ToEarliest}, {replay.ToLatest, o.ToLatest}, {replay.ToCurrent, o.ToCurrent}, {replay.ToDatetime, o.ToDatetime != ""},
		{replay.ByDuration, o.ByDuration != ""}, {replay.ToOffset, o.ToOffset != nil}, {replay.ShiftBy, o.ShiftBy != nil}, {replay.FromFile, o.FromFile != ""},
	} {
		if way.given {
			given = append(given, way.how)
		}
	}
	return given
}

func (o replayOffsets) given() bool { return len(o.ways()) > 0 }

// idle is a flag that means nothing, since no offsets are set: what is asked for is a
// selection, made in a span or not, or a replay that is there. "": there is none.
func (o replayOffsets) idle(span bool) string {
	for _, flag := range []struct {
		name  string
		given bool
	}{{"--export", o.Export}, {"--skip", o.Skip}, {"--beyond-window", o.BeyondWindow}, {"--no-dry-run", !o.DryRun}, {"--partitions", o.Partitions != nil && !span}} {
		if flag.given {
			return flag.name
		}
	}
	return ""
}

// asked reads the flags.
func (o replayOffsets) asked(now time.Time, group, topic string, in io.Reader) (a replaying.Asked, err error) {
	ways := o.ways()
	if len(ways) > 1 {
		return a, fmt.Errorf("--%s and --%s are two targets; give one", ways[0], ways[1])
	}
	a.Target = replay.Target{How: ways[0], Partitions: o.Partitions}
	a.Words = "--" + string(ways[0])
	a.Allowed = replay.Allowed{Skip: o.Skip, BeyondWindow: o.BeyondWindow}
	t := &a.Target
	switch t.How {
	case replay.ToDatetime:
		if t.At, err = replay.ParseTime(o.ToDatetime); err == nil && t.At.After(now) {
			err = fmt.Errorf("%s is yet to come", exactly(t.At))
		}
		a.Words += " " + exactly(t.At)
	case replay.ByDuration:
		var d time.Duration
		d, err = replay.ParseDuration(o.ByDuration)
		t.At = now.Add(-d).UTC().Truncate(time.Millisecond)
		a.Words += fmt.Sprintf(" %s (since %s)", o.ByDuration, exactly(t.At))
	case replay.ToOffset:
		if t.N = *o.ToOffset; t.N < 0 {
			err = errors.New("an offset is not negative")
		}
		a.Words += fmt.Sprintf(" %d", t.N)
	case replay.ShiftBy:
		t.N = *o.ShiftBy
		a.Words += fmt.Sprintf("=%d", t.N)
	case replay.FromFile:
		a.Words += " " + o.FromFile
		t.Offsets, err = o.file(group, topic, in)
	}
	if err != nil {
		return a, fmt.Errorf("--%s: %w", t.How, err)
	}
	return a, nil
}

func (o replayOffsets) file(group, topic string, in io.Reader) (map[int32]int64, error) {
	var text []byte
	var err error
	if o.FromFile == "-" {
		text, err = io.ReadAll(in)
	} else {
		text, err = os.ReadFile(o.FromFile)
	}
	if err != nil {
		return nil, err
	}
	return replay.ReadFile(string(text), group, topic)
}

func exactly(t time.Time) string { return t.Format("2006-01-02T15:04:05.000Z") }

// again is the command line that carries out exactly the plan that these flags made.
// What moves by itself is named by what it was then.
func (o replayOffsets) again(d desk, a replaying.Asked, digest string) string {
	var scope, flags []string
	if o.Partitions != nil {
		scope = append(scope, "--partitions "+strings.Trim(strings.ReplaceAll(fmt.Sprint(o.Partitions), " ", ","), "[]"))
	}
	for _, flag := range []struct {
		name  string
		given bool
	}{{"--skip", o.Skip}, {"--beyond-window", o.BeyondWindow}, {"--no-dry-run", !o.DryRun}} {
		if flag.given {
			flags = append(flags, flag.name)
		}
	}
	if d.DataDir != defaultDataDir {
		flags = append(flags, "--data-dir "+d.DataDir)
	}
	flags = append(flags, "--execute", "--plan", digest, "--reason …")
	line := func(words ...string) string { return "sluice replay " + strings.Join(words, " ") }
	switch a.Target.How {
	case replay.ByDuration, replay.ToDatetime:
		return line(append(append([]string{"--to-datetime " + exactly(a.Target.At)}, scope...), flags...)...)
	case replay.ToLatest, replay.ToCurrent, replay.ShiftBy:
		return line(append([]string{a.Words}, append(scope, "--export > offsets.csv")...)...) + "\n  " +
			line(append([]string{"--from-file offsets.csv"}, flags...)...)
	default:
		return line(append(append([]string{a.Words}, scope...), flags...)...)
	}
}

const defaultDataDir = ".sluice"

// replayPlace is where replays are made, for one command.
type replayPlace struct {
	*replaying.Place
	env   environment
	kafka kafka.Config
	store *postgres.Store
}

func openReplay(ctx context.Context, d desk) (*replayPlace, error) {
	e, err := running(d.DataDir)
	if err != nil {
		return nil, err
	}
	s, err := read[struct {
		Kafka    kafka.Config
		Database postgres.Config
	}](e)
	if err != nil {
		return nil, err
	}
	store, err := postgres.Open(ctx, s.Database, 4)
	if err != nil {
		return nil, err
	}
	place, err := replaying.Open(ctx, s.Kafka, store, slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		store.Close()
		return nil, err
	}
	return &replayPlace{Place: place, env: e, kafka: s.Kafka, store: store}, nil
}

func (p *replayPlace) Close() {
	p.Place.Close()
	p.store.Close()
}

// thinking is how long a person may look at a plan before it is made anew to see
// whether it still is the same.
const thinking = 30 * time.Second

func (o replayOffsets) run(ctx context.Context, c *console, acts replayActs, d desk) error {
	if o.Export && acts.Execute {
		return usageError{errors.New("--export only prints; leave --execute away")}
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	place, err := openReplay(ctx, d)
	if err != nil {
		return err
	}
	defer place.Close()
	asked, err := o.asked(time.Now(), place.Group(), place.Topic(), os.Stdin)
	if err != nil {
		return usageError{err}
	}
	plan, err := o.plan(ctx, c, place, asked, d)
	if err != nil {
		return brokenOff(err)
	}
	made := time.Now()
	if o.Export {
		_, err := io.WriteString(c.out, replay.WriteFile(plan.Topic, plan.Offsets()))
		return err
	}
	switch again := o.again(d, asked, plan.Digest); {
	case !d.JSON && acts.Execute:
		plan.Print(terminal.New(c.out), "")
	case !d.JSON:
		plan.Print(terminal.New(c.out), again)
	case !acts.Execute:
		if err := d.say(c, plan, nil); err != nil {
			return err
		}
	}
	if err := plan.Refused(); err != nil {
		return fmt.Errorf("nothing was done: %w", err)
	}
	if !acts.Execute || !plan.Does() {
		return nil
	}
	if err := acts.agree(c, plan.Digest); err != nil {
		return err
	}
	if time.Since(made) > thinking {
		now, err := o.plan(ctx, c, place, asked, d)
		if err != nil {
			return err
		}
		if now.Digest != plan.Digest {
			return fmt.Errorf("%w while you looked at it: it is plan %s now; ask for it again", replaying.ErrMoved, now.Digest)
		}
	}
	return o.execute(ctx, c, place, plan, acts, d)
}

// plan makes the plan, with a bar while the records are looked at.
func (o replayOffsets) plan(ctx context.Context, c *console, place *replayPlace, asked replaying.Asked, d desk) (*replaying.Document, error) {
	var dry replaying.DryRun
	if o.DryRun && !o.Export {
		var err error
		if dry, err = place.dryRun(ctx); err != nil {
			return nil, fmt.Errorf("to see what the records would do: %w (--no-dry-run does without)", err)
		}
	}
	var bar *terminal.Bar
	plan, err := place.Plan(ctx, asked, dry, func(records int64) { bar = d.progress(c.out).Bar(int(records)) }, func(n int) { bar.Add(n) })
	end(&bar)
	return plan, err
}

func (o replayOffsets) execute(ctx context.Context, c *console, place *replayPlace, plan *replaying.Document, acts replayActs, d desk) error {
	p := d.progress(c.out)
	id, err := place.Execute(ctx, replaying.Order{Plan: plan, Who: acts.As, Reason: acts.Reason, Patience: o.Wait,
		Say: func(stage string) { p.Line("%s", stage) }})
	if errors.Is(err, context.Canceled) {
		return errors.New("nothing was done: it was broken off before it began")
	}
	if err != nil {
		return err
	}
	now, err := place.Progress(ctx, id)
	if err == nil && now.Members == 0 {
		return d.say(c, now.Status(), func(p *terminal.Printer) { now.Status().Print(p) })
	}
	return follow(ctx, c, place, id, d)
}

// follow shows a replay's progress until it ends.
func follow(ctx context.Context, c *console, place *replayPlace, id int64, d desk) error {
	bar := d.progress(c.out).Bar(1)
	now, err := place.Follow(ctx, id, func(now replaying.Progress) { bar.At(now.Read, now.Total, now.Note()) })
	bar.End()
	if errors.Is(err, context.Canceled) {
		fmt.Fprintf(c.err, "replay %d goes on without this command; sluice replay --follow shows it, sluice replay --stop ends it\n", id)
		return nil
	}
	if err != nil {
		return fmt.Errorf("replay %d goes on; only its progress cannot be read: %w", id, err)
	}
	if err := d.say(c, now.Status(), func(p *terminal.Printer) { now.Status().Print(p) }); err != nil {
		return err
	}
	if now.Replay.State != postgres.ReplayDone {
		return fmt.Errorf("replay %d was stopped before its end", id)
	}
	return nil
}
