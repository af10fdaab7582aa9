package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"sluice/services/sluice/catalog"
	"sluice/services/sluice/terminal"
)

type providersCmd struct {
	Name   string `arg:"" optional:"" help:"The provider to tell everything about."`
	Format string `help:"text, markdown or json." enum:"text,markdown,json" default:"text"`
}

func (providersCmd) Help() string {
	return `Says how each built-in provider signs, what its signature covers and what it does not, where an event's id
comes from, whether its events are believed or only hints, for how long it repeats a delivery, by what its API can be
asked (look-up), and what it needs. With a name also an entry of the endpoints file to begin with.

Examples:
  sluice providers
  sluice providers payme
  sluice providers --format json
  sluice providers --format markdown      as docs/providers.md has it`
}

func (k providersCmd) Run(c *console) error {
	all := catalog.All()
	if k.Name != "" {
		one, err := catalog.Of(k.Name)
		if err != nil {
			return usageError{err}
		}
		all = []catalog.Provider{one}
	}
	switch k.Format {
	case "markdown":
		_, err := io.WriteString(c.out, catalog.Markdown(all))
		return err
	case "json":
		e := json.NewEncoder(c.out)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		if k.Name != "" {
			return e.Encode(all[0])
		}
		return e.Encode(all)
	}
	p := terminal.New(c.out)
	if k.Name != "" {
		printProvider(p, all[0])
		return nil
	}
	rows := [][]string{{p.Bold("provider"), p.Bold("trust"), p.Bold("repeats"), p.Bold("look-up"), p.Bold("needs"), p.Bold("signature")}}
	for _, one := range all {
		rows = append(rows, []string{one.Name, one.Kind(), one.Retries, one.Asked(), one.Needs(), plainText(one.Signature)})
	}
	p.Table(rows)
	p.Line("\n%s", p.Dim("sluice providers NAME tells all about one."))
	return nil
}

func printProvider(p *terminal.Printer, one catalog.Provider) {
	p.Title(one.Title)
	rows := make([][]string, 0, 16)
	for _, f := range one.Facts() {
		rows = append(rows, []string{f[0], plainText(f[1])})
	}
	p.Table(rows)
	p.Title("In the endpoints file")
	for line := range strings.Lines(one.Endpoint()) {
		p.Line("  %s", strings.TrimRight(line, "\n"))
	}
	p.Line("\n%s", p.Dim(fmt.Sprintf("A recorded request: sluice verify REQUEST --endpoint %s", strings.ReplaceAll(one.Name, "_", "-"))))
}

// plainText is a text without Markdown's marks.
func plainText(text string) string {
	return strings.NewReplacer("`", "", "<", "", ">", "").Replace(text)
}
