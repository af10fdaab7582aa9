package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"sluice/pkg/archive"
	"sluice/services/sluice/terminal"
)

type archiveCmd struct {
	List   archiveListCmd   `cmd:"" help:"Which partitions are archived, and what else lies in the directory."`
	Verify archiveVerifyCmd `cmd:"" help:"Read files whole and hold them to their manifests."`
	Cat    archiveCatCmd    `cmd:"" help:"Write the rows of a file, as JSON, a line each."`
}

// shelf is where every archive command looks.
type shelf struct {
	Dir string `help:"The directory." env:"SLUICE_PROCESSOR_ARCHIVE" placeholder:"DIR"`
}

func (s shelf) dir() (archive.Dir, error) {
	if s.Dir == "" {
		return "", usageError{errors.New("say where the archive is: --dir, or SLUICE_PROCESSOR_ARCHIVE")}
	}
	return archive.Dir(s.Dir), nil
}

type archiveListCmd struct {
	shelf
	JSON bool `help:"For programs." name:"json"`
}

func (archiveListCmd) Help() string {
	return `With SLUICE_PROCESSOR_ARCHIVE the processor writes raw bodies and order transitions into files before it drops
their partitions: JSON lines, compressed with zstd, each file with a manifest that says how many rows it has and its
SHA-256. What has no manifest is the beginning of a program that died, and may be removed.

Examples:
  sluice archive list --dir backup/sluice
  sluice archive list --dir backup/sluice --json | jq -r '.[].file'`
}

func (r archiveListCmd) Run(c *console) error {
	dir, err := r.dir()
	if err != nil {
		return err
	}
	all, strays, err := dir.List()
	if err != nil {
		return err
	}
	if all == nil {
		all = []archive.Manifest{}
	}
	return desk{JSON: r.JSON}.say(c, all, func(p *terminal.Printer) {
		if len(all) == 0 {
			p.Line("nothing is archived in %s", dir)
		} else {
			rows := [][]string{{"partition", "rows", "size", "as a file", "archived (UTC)", "file"}}
			for _, m := range all {
				rows = append(rows, []string{m.Name, number(m.Rows), sizeOf(m.Bytes), sizeOf(m.FileBytes), stamp(m.ArchivedAt), m.File})
			}
			p.Table(right(rows, 6))
		}
		for _, name := range strays {
			p.Line("  %s", p.Yellow(name+" is no archive of this program"))
		}
	})
}

// sizeOf is a number of bytes for people.
func sizeOf(n int64) string {
	const unit = 1024
	size, units := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for ; size >= unit && len(units) > 1; units = units[1:] {
		size /= unit
	}
	if units[0] == "B" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", size, units[0])
}

type archiveVerifyCmd struct {
	shelf
	Files []string `arg:"" optional:"" help:"Files, as in the list; all by default."`
}

func (archiveVerifyCmd) Help() string {
	return `Exits with 1 if a file is damaged or gone. sha256sum says the same of a whole file.

Examples:
  sluice archive verify --dir backup/sluice
  sluice archive verify --dir backup/sluice raw_bodies_2026_10_01-3f9a1c2b4d5e.jsonl.zst`
}

var errDamaged = errors.New("the archive is not whole")

func (r archiveVerifyCmd) Run(ctx context.Context, c *console) error {
	dir, err := r.dir()
	if err != nil {
		return err
	}
	var all []archive.Manifest
	for _, name := range r.Files {
		m, err := dir.Read(name)
		if err != nil {
			return err
		}
		all = append(all, m)
	}
	if len(r.Files) == 0 {
		if all, _, err = dir.List(); err != nil {
			return err
		}
	}
	if len(all) == 0 {
		terminal.New(c.out).Line("nothing is archived in %s", dir)
		return nil
	}
	total, bad := int64(0), 0
	for _, m := range all {
		total += m.FileBytes
	}
	p := terminal.New(c.out)
	bar := p.Bar(int(total))
	problems := make([]error, len(all))
	for i, m := range all {
		problems[i] = dir.Verify(ctx, m, bar.Add)
	}
	bar.End()
	for i, m := range all {
		if problems[i] == nil {
			p.Line("%s %s, %d rows", p.Green("✓"), m.File, m.Rows)
			continue
		}
		p.Line("%s %s", p.Red("✗"), problems[i])
		bad++
	}
	if bad > 0 {
		return errDamaged
	}
	return nil
}

type archiveCatCmd struct {
	shelf
	File string `arg:"" help:"A file, as in the list."`
}

func (archiveCatCmd) Help() string {
	return `Each row is a JSON object with the columns of its table; bytes are \x and hexadecimal digits, as PostgreSQL writes
them. The file is verified while it is read: if this exits with 1, what it wrote is not what was archived. Rows hold
bodies, and so personal data.

Examples:
  sluice archive cat --dir backup/sluice raw_bodies_2026_10_01-3f9a1c2b4d5e.jsonl.zst | jq -r .body
  sluice archive cat --dir backup/sluice order_transitions_0-8b1a9953c461.jsonl.zst | jq 'select(.order_id == "A-1")'

Back into a table of the same form, with psql:
  CREATE TEMP TABLE lines (line jsonb);
  \copy lines FROM PROGRAM 'sluice archive cat FILE' (FORMAT csv, DELIMITER E'\1', QUOTE E'\2')
  INSERT INTO somewhere SELECT (jsonb_populate_record(NULL::raw_bodies, line)).* FROM lines;`
}

func (r archiveCatCmd) Run(ctx context.Context, c *console) error {
	dir, err := r.dir()
	if err != nil {
		return err
	}
	m, err := dir.Read(r.File)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w\n  sluice archive list --dir %s", err, dir)
	}
	if err != nil {
		return err
	}
	return dir.Cat(ctx, m, c.out)
}
