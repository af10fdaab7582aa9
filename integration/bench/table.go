package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// printTable writes the rows for a terminal, one line for each target.
func printTable(out io.Writer, rows []row) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprintln(w, strings.Join(heads, "\t"))
	for _, r := range rows {
		cells := r.cells()
		last := len(cells) - 1
		for i, t := range r.Targets {
			if i > 0 {
				cells = make([]string, last+1)
			}
			cells[last] = t.String()
			fmt.Fprintln(w, strings.Join(cells, "\t"))
		}
		if len(r.Targets) == 0 {
			fmt.Fprintln(w, strings.Join(cells, "\t"))
		}
	}
}

// markdown writes the rows as the table of docs/benchmarks.md.
func markdown(rows []row) string {
	var b strings.Builder
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line(heads)
	line(strings.Split(strings.TrimSuffix(strings.Repeat("---|", len(heads)), "|"), "|"))
	for _, r := range rows {
		line(r.cells())
	}
	return b.String()
}
