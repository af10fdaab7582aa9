// Package terminal prints for people: aligned, calm, coloured only on a terminal
// (https://no-color.org is respected).
package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/mattn/go-isatty"
)

// Printer writes to one place. The zero value of live is a file or a pipe: no
// colour, no line that changes.
type Printer struct {
	w      io.Writer
	live   bool
	colour bool
}

// New prints to w; colour and moving lines are used only if w is a terminal.
func New(w io.Writer) *Printer {
	p := &Printer{w: w}
	if f, ok := w.(*os.File); ok && isatty.IsTerminal(f.Fd()) && os.Getenv("TERM") != "dumb" {
		p.live, p.colour = true, os.Getenv("NO_COLOR") == ""
	}
	return p
}

// The few styles there are.
func (p *Printer) Bold(s string) string   { return p.style("1", s) }
func (p *Printer) Dim(s string) string    { return p.style("2", s) }
func (p *Printer) Red(s string) string    { return p.style("31", s) }
func (p *Printer) Green(s string) string  { return p.style("32", s) }
func (p *Printer) Yellow(s string) string { return p.style("33", s) }

func (p *Printer) style(code, s string) string {
	if !p.colour || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// Line prints one line.
func (p *Printer) Line(format string, args ...any) {
	_, _ = fmt.Fprintf(p.w, format+"\n", args...)
}

// Title prints a heading with room above it.
func (p *Printer) Title(text string) { p.Line("\n%s", p.Bold(text)) }

// Table prints rows in aligned columns, indented; the last column is not padded.
func (p *Printer) Table(rows [][]string) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], Width(cell))
		}
	}
	for _, row := range rows {
		var b strings.Builder
		b.WriteString("  ")
		for i, cell := range row {
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-Width(cell)+2))
			}
		}
		p.Line("%s", strings.TrimRight(b.String(), " "))
	}
}

// Width is how many columns s takes, styles left out.
func Width(s string) int {
	n, rest := 0, s
	for {
		before, after, styled := strings.Cut(rest, "\x1b[")
		n += utf8.RuneCountInString(before)
		if !styled {
			return n
		}
		_, rest, _ = strings.Cut(after, "m")
	}
}
