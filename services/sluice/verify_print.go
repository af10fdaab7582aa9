package main

import (
	"slices"
	"strings"
	"unicode"

	"sluice/services/sluice/diagnose"
	"sluice/services/sluice/terminal"
)

// printDiagnosis prints the steps, the verdict, and what to do.
func printDiagnosis(p *terminal.Printer, d diagnose.Diagnosis) {
	marks := map[diagnose.Mark]string{diagnose.Note: p.Dim("·"), diagnose.Good: p.Green("✓"), diagnose.Bad: p.Red("✗")}
	for _, s := range d.Steps {
		p.Line("%s %s", marks[s.Mark], printable(s.Text))
	}
	if d.Verified() {
		p.Line("%s", p.Green("verified"))
		return
	}
	p.Line("%s", p.Red("not verified"))
	if slices.ContainsFunc(d.Causes, func(c diagnose.Cause) bool { return c.Proven }) {
		p.Line("\n%s", p.Bold("Why"))
	} else {
		p.Line("\n%s", p.Bold("Why (likely: no one mistake that was tried explains it)"))
	}
	for _, c := range d.Causes {
		sure := ""
		if !c.Proven {
			sure = p.Dim(" (likely)")
		}
		p.Line("  %s%s", printable(c.Text), sure)
		p.Line("    → %s", c.Do)
	}
}

// printable is text without what a terminal would obey: names of headers and types
// of events are a stranger's.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '\ufffd'
	}, text)
}
