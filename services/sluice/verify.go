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

// VerifyCmd diagnoses a recorded request, or runs files of signature vectors and
// payload fixtures against the built-in providers. The files' format is in
// pkg/webhook/testdata/README.md.
type VerifyCmd struct {
	Request string `arg:"" optional:"" help:"The recorded request: raw HTTP, a curl command or trace, or a HAR file; - is the standard input."`

	Endpoint    string `help:"Endpoint of the endpoints file; by default the one that the request was sent to, or the only one."`
	Endpoints   string `help:"The endpoints file." env:"SLUICE_ENDPOINTS"`
	Mode        string `help:"The deployment's mode, live or test; by default whichever the file fits." env:"SLUICE_MODE"`
	DataDir     string `help:"Of a sluice dev: where to find the endpoints file if none is named." default:".sluice"`
	Entry       int    `help:"Which entry of a HAR file, counted from 1; by default every one that was sent to an endpoint."`
	At          string `help:"The clock, as 2026-03-14T09:26:53Z or Unix seconds. By default the recorded Date header, else the signature's own time."`
	From        string `help:"The address it came from, for providers that are held to theirs." placeholder:"ADDRESS"`
	Body        string `help:"A file with the body, if the recording has none." placeholder:"FILE"`
	Certificate string `help:"A PEM file with the certificate that the request names, the signing one first; by default it is fetched from the provider's own host." placeholder:"FILE"`
	Offline     bool   `help:"Fetch nothing."`

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
	return `Checks one request, as it was recorded, with an endpoint's own secrets, and says step by step whether it
verifies. If not, it undoes the usual mistakes one by one and two at a time (a secret in another form, a body that was
parsed and written again, a renamed header, another URL, a clock that is off, …), and names the one that was made and
what to do. Neither secrets nor the body are ever printed. Exit: 0 verified, 1 not, 2 asked wrongly.

A recording is raw HTTP (nc, a proxy's dump), a curl command, curl --trace (-v shows no body: add --body), or HAR.

Examples:
  sluice verify request.http --endpoints endpoints.yaml --endpoint stripe
  sluice verify request.http --endpoint stripe --at 2026-03-14T09:26:53Z
  sluice verify session.har --endpoint stripe --entry 3
  pbpaste | sluice verify - --endpoint stripe

Files of vectors and fixtures are for people who add a provider: a line for each failure, then the counts. Skipped are
entries of providers that are not built in.

Examples:
  sluice verify --vectors vectors/stripe.json
  sluice verify --fixtures fixtures/stripe.json
  sluice verify --vectors vectors/*.json --fixtures fixtures/*.json`
}

// Run diagnoses a request or runs files, whichever was asked for.
func (v *VerifyCmd) Run(c *console) error {
	all := slices.Concat(v.Vectors, v.Fixtures)
	switch {
	case v.Request != "" && len(all) > 0:
		return usageError{errors.New("verify: give a recorded request, or files of vectors and fixtures, not both")}
	case v.Request != "":
		return v.request(c)
	case len(all) == 0:
		return usageError{errors.New("verify: give a recorded REQUEST, or --vectors FILE or --fixtures FILE")}
	}
	return v.files(c, all)
}

// files prints a line for each failure and the counts in the last line. It fails if
// anything failed.
func (v *VerifyCmd) files(c *console, all []string) error {
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
