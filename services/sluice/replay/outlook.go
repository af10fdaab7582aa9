package replay

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sluice/services/processor"
	"sluice/services/sluice/terminal"
)

// Outlook is what a dry run said, as a plan has it.
type Outlook struct {
	processor.Outlook
	// Anew: known events were read anew.
	Anew bool `json:"-"`
}

// Fresh is how many records were never taken over.
func (o Outlook) Fresh() int64 { return o.New + o.Mended }

// Agreed leaves out what grows with live traffic, which is known by the time that it
// is looked at again and changes nothing: how many records there are, duplicates, dead
// letters that were kept before, hints. And the samples, which are only some.
func (o Outlook) Agreed() any {
	agreed := o.Outlook
	agreed.Records, agreed.Tombstones, agreed.Duplicates, agreed.Hints = 0, 0, 0, 0
	agreed.Dead, agreed.Samples = nil, processor.Samples{}
	return agreed
}

// Print is for people.
func (o Outlook) Print(p *terminal.Printer) {
	changed := func(n int64) string {
		if n == 0 {
			return p.Dim("0")
		}
		return p.Bold(fmt.Sprint(n))
	}
	known := "duplicates, which change nothing"
	if o.Anew {
		known = "say what they said then, or were not asked for"
	}
	rows := [][]string{{known, fmt.Sprint(o.Duplicates)}, {"new, and taken over", changed(o.New)}}
	for _, line := range []struct {
		what string
		n    int64
	}{
		{"  applied", o.Applied}, {"  no change", o.NoChange}, {"  of the other mode", o.OtherMode}, {"  held", sum(o.Held)},
		{"read anew, and saying something else", o.Mended}, {"events that would be judged otherwise", turned(o.Older)},
		{"held until their provider is asked", o.Hints}, {"dead letters", sum(o.Dead)}, {"  of them not kept before", o.NewlyDead},
		{"dead letters that can be read now", o.Revived}, {"without a body", o.Tombstones},
	} {
		if line.n > 0 {
			rows = append(rows, []string{line.what, changed(line.n)})
		}
	}
	rows = append(rows, []string{"orders that would change", changed(o.Orders)},
		[]string{"messages to publish", changed(o.Messages)}, []string{"  corrections", changed(o.Corrections)})
	effects := int64(0)
	for _, e := range o.Effects {
		effects += e.Caused + e.Again + e.Withdrawn + e.Outdated
	}
	p.Table(append(rows, []string{"effects", changed(effects)}))
	o.details(p)
}

// details are what each figure is made of, where it is not 0.
func (o Outlook) details(p *terminal.Printer) {
	var rows [][]string
	for _, s := range o.Steps {
		rows = append(rows, []string{"orders", fmt.Sprintf("%s → %s", words(s.From.String()), words(s.To.String())), fmt.Sprint(s.Orders)})
	}
	for _, e := range o.Effects {
		for _, what := range []struct {
			word string
			n    int64
		}{{"caused", e.Caused}, {"caused again", e.Again}, {"withdrawn", e.Withdrawn}, {"outdated: a person is asked", e.Outdated}} {
			if what.n > 0 {
				rows = append(rows, []string{"effect", e.Effect + " " + what.word, fmt.Sprint(what.n)})
			}
		}
	}
	for _, reasons := range []struct {
		what string
		of   map[string]int64
	}{{"held", o.Held}, {"dead", o.Dead}} {
		for _, reason := range slices.Sorted(maps.Keys(reasons.of)) {
			rows = append(rows, []string{reasons.what, words(reason), fmt.Sprint(reasons.of[reason])})
		}
	}
	for _, r := range o.Review {
		rows = append(rows, []string{"review items", fmt.Sprintf("%s: %d opened, %d settled", words(r.Kind), r.Opened, r.Settled)})
	}
	if len(rows) > 0 {
		p.Line("")
		p.Table(rows)
	}
	o.samples(p)
}

func (o Outlook) samples(p *terminal.Printer) {
	var rows [][]string
	for _, s := range o.Samples.Orders {
		rows = append(rows, []string{s.Order, words(s.From.String()) + " → " + p.Bold(words(s.To.String())),
			fmt.Sprintf("%d messages, %d corrections", s.Messages, s.Corrections), "by " + s.Event + " of " + s.Source})
	}
	for _, s := range o.Samples.Effects {
		rows = append(rows, []string{s.Order, s.Effect + " " + s.What, "", s.Key})
	}
	for _, events := range [][]processor.EventSample{o.Samples.Held, o.Samples.Dead} {
		for _, s := range events {
			rows = append(rows, []string{s.Order, words(s.Verdict) + ": " + words(s.Reason), s.Event + " of " + s.Source,
				fmt.Sprintf("partition %d, offset %d", s.Partition, s.Offset)})
		}
	}
	if len(rows) > 0 {
		p.Line("\n  %s", p.Dim("some of them:"))
		p.Table(rows)
	}
}

func sum(of map[string]int64) (n int64) {
	for _, more := range of {
		n += more
	}
	return n
}

func turned(turns []processor.Turn) (n int64) {
	for _, t := range turns {
		n += t.Events
	}
	return n
}

func words(name string) string { return strings.ReplaceAll(name, "_", " ") }
