package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"sluice/pkg/endpoint"
	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
	"sluice/pkg/retention"
	"sluice/services/processor"
	"sluice/services/sluice/terminal"
)

type retentionCmd struct{ desk }

func (retentionCmd) Help() string {
	return `Sets against each other how long the raw topic keeps records, repeats are recognised, bodies, transitions and
statuses are kept, and each provider repeats; says which repeats could come after they were forgotten, and which bytes
would be gone before they may be needed; and what is on disk. Settings are read here as the processor reads them:
run it where those are. It changes nothing, and exits with 1 if a processor would refuse to start.

Examples:
  sluice retention
  sluice retention --json | jq '.findings[] | select(.severity != "fine")'

Settings:
  KAFKA_BROKERS, DATABASE_URL, SLUICE_ENDPOINTS, SLUICE_MODE and what belongs to them (sluice processor --help)`
}

// retained is what the command says.
type retained struct {
	retention.Report
	RawTopic rawTopic             `json:"raw_topic"`
	Tables   []postgres.KeptTable `json:"tables"`
	// Missing are table partitions that should be there already.
	Missing []string `json:"missing_partitions,omitempty"`
	// NotLookedAt says why the endpoints are not among it.
	NotLookedAt string `json:"not_looked_at,omitempty"`
}

// rawTopic is what the raw topic holds.
type rawTopic struct {
	Records int64 `json:"records"`
	// Oldest is when the oldest record was appended; absent if there is none.
	Oldest *time.Time `json:"oldest,omitempty"`
}

// horizonSettings is what the horizons are made of.
type horizonSettings struct {
	Kafka     kafka.Config
	Database  postgres.Config
	Processor processor.Config
}

var errHorizons = errors.New("a processor would refuse to start")

func (r retentionCmd) Run(ctx context.Context, c *console) error {
	e, err := running(r.DataDir)
	if err != nil {
		return err
	}
	s, err := read[horizonSettings](e)
	if err != nil {
		return err
	}
	store, err := postgres.Open(ctx, s.Database, 2)
	if err != nil {
		return err
	}
	defer store.Close()
	quiet := slog.New(slog.DiscardHandler)
	kept, err := kafka.ReadRetention(ctx, s.Kafka, quiet, processor.Topics(s.Kafka)...)
	if err != nil {
		return err
	}
	var found retained
	endpoints, err := endpointsOf(e)
	if err != nil {
		found.NotLookedAt = "how long providers repeat: the endpoints file is not known here: " + err.Error()
	}
	found.Report = retention.Check(s.Processor.Horizons(s.Kafka, kept, store.Window(), s.Database.LongestGrace(), endpoints))
	if found.RawTopic, err = readRawTopic(ctx, s.Kafka, quiet); err != nil {
		return err
	}
	if found.Tables, err = store.KeptTables(ctx, s.Processor.Retention()); err != nil {
		return err
	}
	if found.Missing, err = store.MissingPartitions(ctx, time.Now()); err != nil {
		return err
	}
	if err := r.say(c, found, func(p *terminal.Printer) { printRetained(p, found, time.Now()) }); err != nil {
		return err
	}
	if found.Refusal() != nil {
		return errHorizons
	}
	return nil
}

func endpointsOf(e environment) (endpoint.Set, error) {
	d, err := read[deployment](e)
	if err != nil {
		return endpoint.Set{}, err
	}
	return endpoint.LoadWithoutSecrets(d.Endpoints, d.Mode, os.ReadFile)
}

// readRawTopic reads the first record of each partition.
func readRawTopic(ctx context.Context, cfg kafka.Config, log *slog.Logger) (r rawTopic, err error) {
	offsets, err := kafka.NewOffsets(ctx, cfg, log, cfg.Topic(kafka.Raw))
	if err != nil {
		return r, err
	}
	defer offsets.Close()
	extent, err := offsets.Extent(ctx)
	if err != nil {
		return r, err
	}
	var firsts []kafka.Range
	for p, end := range extent.End {
		if start := extent.Start[p]; start < end {
			r.Records += end - start
			firsts = append(firsts, kafka.Range{Partition: p, From: start, Before: start + 1})
		}
	}
	err = kafka.Read(ctx, cfg, log, cfg.Topic(kafka.Raw), firsts, func(rec kafka.Record) bool {
		if at := rec.Timestamp.UTC(); r.Oldest == nil || at.Before(*r.Oldest) {
			r.Oldest = &at
		}
		return true
	})
	return r, err
}

func printRetained(p *terminal.Printer, r retained, now time.Time) {
	p.Title("How far back it reaches")
	printHorizons(p, r.Horizons)
	p.Title("What that means")
	for _, f := range r.Findings {
		mark := map[retention.Severity]string{retention.Fine: p.Green("✓"), retention.Warn: p.Yellow("!"), retention.Refuse: p.Red("✗")}[f.Severity]
		p.Line("  %s %s", mark, printable(f.Says))
		if f.Change != "" {
			p.Line("    → %s", printable(f.Change))
		}
	}
	if r.NotLookedAt != "" {
		p.Line("  %s", p.Yellow("not looked at: "+r.NotLookedAt))
	}
	p.Title("On disk")
	rows := [][]string{{"", "oldest (UTC)", "size", "goes next", "", "made until (UTC)"}}
	topic := []string{"raw topic", "", fmt.Sprintf("%d records", r.RawTopic.Records)}
	if r.RawTopic.Oldest != nil {
		topic[1] = stamp(*r.RawTopic.Oldest)
	}
	rows = append(rows, topic)
	for _, t := range r.Tables {
		rows = append(rows, tableRow(p, t, now))
	}
	p.Table(rows)
	for _, t := range r.Tables {
		for _, name := range t.Leaving {
			p.Line("  %s", p.Yellow(name+" is detached and waits to be dropped"))
		}
	}
	if len(r.Missing) > 0 {
		p.Line("  %s", p.Yellow("not made yet: "+strings.Join(r.Missing, ", ")+"; a processor makes them when it starts, and every hour"))
	}
}

func tableRow(p *terminal.Printer, t postgres.KeptTable, now time.Time) []string {
	row := []string{words(t.Table), "", sizeOf(t.Bytes), "", "", ""}
	if t.Oldest != nil {
		row[1] = stamp(*t.Oldest)
	}
	if t.NextDropped != "" {
		row[3] = strings.TrimPrefix(t.NextDropped, t.Table+"_")
		switch {
		case t.DropAt == nil:
			row[4] = p.Dim("once all of it is published and old")
		case t.DropAt.Before(now):
			row[4] = "now"
		default:
			row[4] = stamp(*t.DropAt)
		}
	}
	switch {
	case t.AheadUntil != nil:
		row[5] = stamp(*t.AheadUntil)
	case t.LastNumber > 0:
		row[5] = fmt.Sprintf("number %d", t.LastNumber)
	}
	return row
}

// horizonWidth is how many columns the longest bar takes.
const horizonWidth = 48

// printHorizons draws each as a bar on one axis of days: what is kept for sure, and
// behind it, thinner, what may still be there.
func printHorizons(p *terminal.Printer, all []retention.Horizon) {
	longest := 24 * time.Hour
	for _, h := range all {
		longest = max(longest, h.AtMost)
	}
	columns := func(d time.Duration) int {
		if d <= 0 {
			return 0
		}
		return max(1, int(int64(horizonWidth)*int64(d/time.Minute)/int64(longest/time.Minute)))
	}
	rows := [][]string{{"", axis(longest), "", ""}}
	for _, h := range all {
		paint, bar, says := p.Green, "", retention.Span(h.Kept)
		switch {
		case h.BySize:
			paint, bar, says = p.Yellow, strings.Repeat("╌", horizonWidth)+"→", "by size"
		case h.Kept == retention.Forever:
			bar = strings.Repeat("━", horizonWidth) + "→"
		case h.Kept == 0 && !h.Repeats:
			says = "off"
		default:
			bar = strings.Repeat("━", columns(h.Kept)) + strings.Repeat("╌", columns(h.AtMost)-columns(h.Kept))
			if h.AtMost > h.Kept {
				says += ", at most " + retention.Span(h.AtMost)
			}
		}
		if h.Repeats {
			paint = p.Yellow
		}
		rows = append(rows, []string{h.Name, paint(bar), says, p.Dim(h.Setting)})
	}
	p.Table(rows)
}

// axis is days, at every quarter of the longest.
func axis(longest time.Duration) string {
	var b strings.Builder
	for i := range 4 {
		label := "now"
		if i > 0 {
			label = fmt.Sprintf("%.0f", (longest*time.Duration(i)/4).Hours()/24)
		}
		b.WriteString(label + strings.Repeat(" ", horizonWidth/4-len(label)))
	}
	return b.String() + retention.Span(longest)
}
