package main

import (
	"errors"
	"fmt"
	"os"

	"sluice/pkg/webhook/conformance"
)

// VerifyCmd runs files of signature vectors and payload fixtures against the
// built-in providers. The files' format is in pkg/webhook/testdata/README.md.
type VerifyCmd struct {
	Vectors  []string `placeholder:"FILE" sep:"none" help:"Signed requests, and what verification must say of each. May be repeated."`
	Fixtures []string `placeholder:"FILE" sep:"none" help:"Bodies, and the reading that each must give. May be repeated."`
	// Files take what a shell made of --vectors *.json.
	Files []string `arg:"" optional:"" name:"file" help:"More files of either kind."`
}

// Run prints a line for each failure and the counts in the last line. It fails if
// anything failed, or if there was nothing to run.
func (v *VerifyCmd) Run(c *console) error {
	var files []string
	files = append(append(append(files, v.Vectors...), v.Fixtures...), v.Files...)
	if len(files) == 0 {
		return errors.New("verify: give --vectors FILE or --fixtures FILE")
	}
	var passed, failed, skipped int
	for _, path := range files {
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
