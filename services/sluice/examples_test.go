package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

var (
	exampleSection = regexp.MustCompile(`(?m)Examples?:\n((?:  .+(?:\n|$))+)`)
	exampleCommand = regexp.MustCompile(`^  (?:[A-Z_]+=\S+ )*sluice( .*)?$`)
	exampleRemark  = regexp.MustCompile(`   *[^ "'-].*$| \|.*$`) // what follows two spaces, or a pipe
	exampleWord    = regexp.MustCompile(`"[^"]*"|\S+`)
)

// examples are the command lines of sluice itself that a help text shows.
func examples(help string) (lines [][]string) {
	for _, section := range exampleSection.FindAllStringSubmatch(help, -1) {
		for line := range strings.Lines(section[1]) {
			m := exampleCommand.FindStringSubmatch(strings.TrimRight(line, "\n"))
			if m == nil {
				continue
			}
			words := exampleWord.FindAllString(exampleRemark.ReplaceAllString(m[1], ""), -1)
			for i := range words {
				words[i] = strings.Trim(words[i], `"`)
			}
			lines = append(lines, words)
		}
	}
	return lines
}

func TestEveryExampleOfEveryHelpIsACommandLine(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("event.json", []byte("{}"), 0o600); err != nil { // an example sends it
		t.Fatal(err)
	}
	parser, err := kong.New(&cli{}, kong.Name("sluice"), kong.Bind(&console{}))
	if err != nil {
		t.Fatal(err)
	}
	var walk func(n *kong.Node)
	walk = func(n *kong.Node) {
		found := examples(n.Detail)
		if n.Leaf() && n.Name != "version" && len(found) == 0 {
			t.Errorf("%s: no example was found in its help", n.FullPath())
		}
		for _, args := range found {
			ctx, err := parser.Parse(args)
			switch {
			case err != nil:
				t.Errorf("%s: example `sluice %s`: %v", n.FullPath(), strings.Join(args, " "), err)
			case !strings.HasPrefix("sluice "+ctx.Command()+" ", n.FullPath()+" "):
				t.Errorf("%s: example `sluice %s` is of another command", n.FullPath(), strings.Join(args, " "))
			}
		}
		for _, below := range n.Children {
			walk(below)
		}
	}
	for _, n := range parser.Model.Children {
		walk(n)
	}
}
