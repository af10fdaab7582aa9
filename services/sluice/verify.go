package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"sluice/pkg/webhook/conformance"
)

// VerifyCmd runs files of signature vectors and payload fixtures against the
// built-in providers. The files' format is in pkg/webhook/testdata/README.md.
type VerifyCmd struct {
	Vectors  files `placeholder:"FILE..." help:"Signed requests, and what verification must say of each."`
	Fixtures files `placeholder:"FILE..." help:"Bodies, and the reading that each must give."`
}

// files takes every argument up to the next flag, as a shell makes them of *.json.
type files []string

// Decode implements kong.MapperValue.
func (f *files) Decode(ctx *kong.DecodeContext) error {
	for !ctx.Scan.Peek().IsEOL() && !strings.HasPrefix(ctx.Scan.Peek().String(), "-") {
		*f = append(*f, ctx.Scan.Pop().String())
	}
	if len(*f) == 0 {
		return errors.New("name at least one file")
	}
	return nil
}

// Help teaches by examples.
func (*VerifyCmd) Help() string {
	return `For people who add a provider. Prints a line for each failure; the last line is the counts. Skipped are
entries of providers that are not built in.

Examples:
  sluice verify --vectors vectors/stripe.json
  sluice verify --fixtures fixtures/stripe.json
  sluice verify --vectors vectors/*.json --fixtures fixtures/*.json`
}

// Run prints a line for each failure and the counts in the last line. It fails if
// anything failed, or if there was nothing to run.
func (v *VerifyCmd) Run(c *console) error {
	all := slices.Concat(v.Vectors, v.Fixtures)
	if len(all) == 0 {
		return errors.New("verify: give --vectors FILE or --fixtures FILE")
	}
	var passed, failed, skipped int
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("verify: %w", err)
		}
		results, err := conformance.Run(text)
		if err != nil {
			return fmt.Errorf("verify %s: %w", path, err)
		}
		for _, r := range results {
			switch {
			case r.Skipped:
				skipped++
			case r.Err != nil:
				failed++
				fmt.Fprintf(c.out, "%s: %s %s: %v\n", path, r.Provider, r.Name, r.Err)
			default:
				passed++
			}
		}
	}
	fmt.Fprintf(c.out, "%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	if failed > 0 {
		return fmt.Errorf("verify: %d failed", failed)
	}
	return nil
}
