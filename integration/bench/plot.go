package main

import (
	"bytes"
	"fmt"
	"html"
)

// The plot's sizes in pixels.
const (
	plotLabels = 390 // the column of names
	plotUnit   = 170 // a bar of one target's length
	plotMost   = 2.0 // targets; a longer bar is cut
	plotLine   = 24
	plotTop    = 64
)

const plotWidth = plotLabels + int(plotUnit*plotMost) + 190

// plot draws one bar for each target, its length the figure by the target, so
// that one mark stands for all targets: bars that are to be long pass it, bars
// that are to be short end before it.
func plot(rows []row) []byte {
	type bar struct {
		label string
		target
	}
	var bars []bar
	for _, r := range rows {
		for _, t := range r.Targets {
			if t.Want > 0 {
				bars = append(bars, bar{r.Measure, t})
			}
		}
	}
	height := plotTop + (2*plotLine)*len(bars) + 16
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n", plotWidth, height, plotWidth, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", plotWidth, height)
	fmt.Fprintf(&b, `<text x="16" y="24" font-size="16" font-weight="bold" fill="#1c1c1c">Each figure by its target</text>`+"\n")
	legend(&b, 16, "#2f6f9f", "at least: must pass the mark")
	legend(&b, 220, "#7a9a3a", "at most: must end before it")
	legend(&b, 420, "#b3402e", "missed")
	for i, one := range bars {
		y := plotTop + 2*plotLine*i
		share := one.Is / one.Want
		end, cut := plotLabels+int(plotUnit*min(share, plotMost)), ""
		if share > plotMost {
			cut = " →"
		}
		fmt.Fprintf(&b, `<text x="16" y="%d" fill="#1c1c1c">%s</text>`+"\n", y+15, html.EscapeString(shortened(one.label)))
		fmt.Fprintf(&b, `<text x="16" y="%d" fill="#6a6a6a">%s</text>`+"\n", y+31, html.EscapeString(one.wanted()))
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" fill="%s"/>`+"\n", plotLabels, y+6, max(end-plotLabels, 1), plotLine, one.colour())
		fmt.Fprintf(&b, `<text x="%d" y="%d" fill="#1c1c1c">%s%s</text>`+"\n", max(end, plotLabels+plotUnit)+8, y+22, html.EscapeString(quantity(one.Is, one.Unit)), cut)
	}
	at := plotLabels + plotUnit
	fmt.Fprintf(&b, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="#1c1c1c" stroke-width="2" stroke-dasharray="5 3"/>`+"\n", at, plotTop-4, at, height-10)
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle" fill="#1c1c1c">target</text>`+"\n", at, plotTop-10)
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func (t target) colour() string {
	switch {
	case !t.reached():
		return "#b3402e"
	case t.AtMost:
		return "#7a9a3a"
	}
	return "#2f6f9f"
}

func legend(b *bytes.Buffer, x int, colour, text string) {
	fmt.Fprintf(b, `<rect x="%d" y="36" width="10" height="10" fill="%s"/><text x="%d" y="45" fill="#6a6a6a">%s</text>`+"\n", x, colour, x+15, text)
}

// shortened keeps a label within its column.
func shortened(s string) string {
	const most = 60
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}
