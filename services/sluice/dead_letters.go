package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"sluice/pkg/endpoint"
	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
	"sluice/services/processor"
	"sluice/services/sluice/terminal"
)

type deadLettersCmd struct {
	List      deadLettersListCmd    `cmd:"" help:"Records that nobody could read, the oldest first, and how many there are."`
	Show      deadLettersShowCmd    `cmd:"" help:"One of them: why it died, where it lies, and what it says by the present rules."`
	SendAgain deadLettersAgainCmd   `cmd:"" name:"send-again" help:"Put them into the raw topic once more, after what they died of was mended."`
	Discard   deadLettersDiscardCmd `cmd:"" help:"They count for nothing, and no replay takes them over."`
}

// deadFilter chooses dead letters.
type deadFilter struct {
	Endpoint string `help:"Only those of this endpoint." placeholder:"NAME"`
	Cause    string `help:"Only those that died of this: headers, endpoint, body, no_order, refused." enum:",headers,endpoint,body,no_order,refused" default:"" placeholder:"CAUSE"`
	Since    string `help:"Only those that died since: a time like 2026-11-30T14:00:00Z or 2026-11-30, or how long ago, like 6h." placeholder:"TIME"`
}

func (f deadFilter) given() bool { return f != deadFilter{} }

func (f deadFilter) filter(now time.Time) (postgres.DeadLetterFilter, error) {
	found := postgres.DeadLetterFilter{Endpoint: f.Endpoint, Reason: f.Cause}
	if f.Since == "" {
		return found, nil
	}
	var err error
	if found.Since, err = moment(f.Since, now); err != nil {
		return found, usageError{fmt.Errorf("--since: %w", err)}
	}
	return found, nil
}

type deadLettersListCmd struct {
	desk
	deadFilter
	Settled bool `help:"Those that are settled, in place of those that are open." xor:"which"`
	All     bool `help:"Both." xor:"which"`
	Limit   int  `help:"At most so many; the counts are of all." default:"100"`
}

func (deadLettersListCmd) Help() string {
	return `A dead letter is a record of the raw topic that nobody could read: kept as it was, counted as dead, and a review
item. It is settled when it was sent again or discarded, or when a replay over its place could read it.

Examples:
  sluice dead-letters list                                 what is open
  sluice dead-letters list --endpoint stripe-eu --since 6h
  sluice dead-letters list --settled --cause body
  sluice dead-letters list --json | jq -r '.letters[].letter'

Settings:
  DATABASE_URL and what belongs to it (sluice processor --help)`
}

// deadList is what list says.
type deadList struct {
	Letters []postgres.DeadLetterSummary `json:"letters"`
	Counts  []postgres.DeadLetterCount   `json:"counts"`
}

func (r deadLettersListCmd) Run(ctx context.Context, c *console) error {
	f, err := r.filter(time.Now())
	if err != nil {
		return err
	}
	store, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	f.Settled, f.All, f.Limit = r.Settled, r.All, r.Limit
	var found deadList
	if found.Letters, err = store.ListDeadLetters(ctx, time.Now(), f); err != nil {
		return err
	}
	if found.Counts, err = store.CountDeadLetters(ctx, f); err != nil {
		return err
	}
	return r.say(c, found, func(p *terminal.Printer) { printDeadLetters(p, found) })
}

type deadLettersShowCmd struct {
	desk
	Letter string `arg:"" help:"PARTITION/OFFSET, or TOPIC/PARTITION/OFFSET, as in the list."`
	Body   string `help:"Write the exact bytes of the body to this new file; - is the standard output, and then nothing else is printed. It may hold personal data." placeholder:"FILE"`
}

func (deadLettersShowCmd) Help() string {
	return `Says why it died, where its record lies, and its headers; the values of signatures and of headers that are not
Sluice's own are never shown. With the endpoints file (SLUICE_ENDPOINTS, SLUICE_MODE) it reads the bytes by the
present rules, and says whether a processor could take them over now, and what they state. It changes nothing.

Examples:
  sluice dead-letters show 0/1734
  sluice dead-letters show 0/1734 --body letter.json
  sluice dead-letters show 0/1734 --json | jq .now

Settings:
  DATABASE_URL and what belongs to it (sluice processor --help); SLUICE_ENDPOINTS, SLUICE_MODE`
}

func (r deadLettersShowCmd) Run(ctx context.Context, c *console) error {
	ref, err := postgres.ParseDeadLetterRef(r.Letter)
	if err != nil {
		return usageError{err}
	}
	store, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	found, err := store.DeadLetterCase(ctx, time.Now(), ref)
	if err != nil {
		return err
	}
	switch r.Body {
	case "":
	case "-":
		_, err := c.out.Write(found.Body)
		return err
	default:
		if err := writeNew(r.Body, found.Body); err != nil {
			return fmt.Errorf("write the body: %w", err)
		}
	}
	rules, err := r.rules()
	if err != nil {
		return err
	}
	shown, err := rules.show(ctx, store, found)
	if err != nil {
		return err
	}
	return r.say(c, shown, func(p *terminal.Printer) { printDeadLetter(p, shown) })
}

// writeNew writes a file that only its owner reads, and never over another one.
func writeNew(name string, content []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

// rules are the present endpoints, or why they are not known here.
type rules struct {
	endpoints endpoint.Set
	unknown   string
}

func (d desk) rules() (rules, error) {
	e, err := running(d.DataDir)
	if err != nil {
		return rules{}, err
	}
	declared, err := read[deployment](e)
	if err == nil {
		var set endpoint.Set
		if set, err = declared.readings(); err == nil {
			return rules{endpoints: set}, nil
		}
	}
	return rules{unknown: "the endpoints file is not known here: " + err.Error()}, nil
}

// deadChoice is which letters are acted on, by whom and why.
type deadChoice struct {
	deadFilter
	Letters []string `arg:"" optional:"" help:"PARTITION/OFFSET, as in the list."`
	All     bool     `help:"Instead of letters or a filter: every one that is open."`
	As      string   `help:"Who you are, for the audit log." env:"USER" placeholder:"NAME"`
	Reason  string   `help:"Why, for the audit log." required:"" placeholder:"TEXT"`
}

func (r deadChoice) check() error {
	ways := 0
	for _, way := range []bool{len(r.Letters) > 0, r.given(), r.All} {
		if way {
			ways++
		}
	}
	switch {
	case ways != 1:
		return usageError{errors.New("name letters, or choose them by --endpoint, --cause and --since, or all that are open with --all")}
	case strings.TrimSpace(r.As) == "":
		return usageError{errors.New("say who you are: --as NAME")}
	case strings.TrimSpace(r.Reason) == "":
		return usageError{errors.New("say why: --reason TEXT")}
	}
	return nil
}

// chosenPage is how many letters are listed at a time.
const chosenPage = 1000

// chosen lists what to act on before anything is done: what dies again meanwhile is
// not among them.
func (r deadChoice) chosen(ctx context.Context, store *postgres.Store) (letters []postgres.DeadLetterSummary, err error) {
	now := time.Now()
	for _, text := range r.Letters {
		ref, err := postgres.ParseDeadLetterRef(text)
		if err != nil {
			return nil, usageError{err}
		}
		found, err := store.DeadLetterCase(ctx, now, ref)
		if err != nil {
			return nil, err
		}
		letters = append(letters, found.DeadLetterSummary)
	}
	if len(r.Letters) > 0 {
		return letters, nil
	}
	f, err := r.filter(now)
	if err != nil {
		return nil, err
	}
	for f.Limit = chosenPage; ; f.After = &letters[len(letters)-1] {
		page, err := store.ListDeadLetters(ctx, now, f)
		letters = append(letters, page...)
		if err != nil || len(page) < chosenPage {
			return letters, err
		}
	}
}

// acted is what was done with the letters that were chosen.
type acted struct {
	Done   []string          `json:"done"`
	Others map[string]string `json:"not_done,omitempty"` // why not
}

// act does something with the chosen letters, a few at a time, with a bar, and says
// what was done.
func (r deadChoice) act(ctx context.Context, c *console, d desk, store *postgres.Store, verb string,
	do func(context.Context, []postgres.DeadLetterSummary, *acted) error) error {
	letters, err := r.chosen(ctx, store)
	if err != nil {
		return err
	}
	result := acted{Done: []string{}, Others: map[string]string{}}
	p := terminal.New(c.err)
	if d.JSON {
		p = terminal.New(io.Discard)
	}
	bar := p.Bar(len(letters))
	for len(letters) > 0 && err == nil {
		n, size := 0, 0
		for n < len(letters) && n < atOnce && (n == 0 || size+letters[n].Size <= atOnceBytes) {
			size += letters[n].Size
			n++
		}
		err = do(ctx, letters[:n], &result)
		bar.Add(n)
		letters = letters[n:]
	}
	bar.End()
	if said := d.say(c, result, func(p *terminal.Printer) { printActed(p, result, verb) }); err == nil {
		err = said
	}
	if err == nil && len(result.Others) > 0 {
		err = fmt.Errorf("not %s: %d", verb, len(result.Others))
	}
	return err
}

// What is taken at a time: others who act on letters wait no longer than it takes to
// write so much, and so much is in memory.
const (
	atOnce      = 100
	atOnceBytes = 8 << 20
)

type deadLettersAgainCmd struct {
	desk
	deadChoice
	Anyway bool `help:"Also what the present rules cannot read here, and that would be a dead letter again."`
}

func (deadLettersAgainCmd) Help() string {
	return `Writes the records into the raw topic once more: the same key, value and headers. Where ingress itself could not
read a body, key and headers are made of it anew, as ingress would now. A letter is settled once Kafka has its copy;
the copy counts for itself, and the letter stays dead in the books. Whatever is sent twice (after a crash, beside a
replay, or because the provider repeated it) is a duplicate and changes nothing. Nobody else acts on a letter
meanwhile: its review item is claimed first. A letter that would die again is not sent.

Examples:
  sluice dead-letters send-again 0/1734 0/1735 --reason "the endpoint is configured now"
  sluice dead-letters send-again --endpoint stripe-eu --cause body --reason "reader mended in 1.4"
  sluice dead-letters send-again --all --reason "after the outage of the endpoints file"

Settings:
  KAFKA_BROKERS, DATABASE_URL, SLUICE_ENDPOINTS, SLUICE_MODE and what belongs to them (sluice processor --help)`
}

// sendTimeout bounds what is sent at a time: the database ends transactions that are
// idle for 10 s.
const sendTimeout = 5 * time.Second

func (r deadLettersAgainCmd) Run(ctx context.Context, c *console) error {
	if err := r.check(); err != nil {
		return err
	}
	present, err := r.rules()
	if err != nil {
		return err
	}
	e, err := running(r.DataDir)
	if err != nil {
		return err
	}
	brokers, err := read[kafka.Config](e)
	if err != nil {
		return err
	}
	store, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	publisher, err := kafka.NewPublisher(ctx, brokers, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer publisher.Close()
	sender := letterSender{rules: present, topic: brokers.Topic(kafka.Raw), anyway: r.Anyway, publish: publisher.Publish}
	return r.act(ctx, c, r.desk, store, "sent again", func(ctx context.Context, letters []postgres.DeadLetterSummary, result *acted) error {
		sent, others, err := store.SendDeadLettersAgain(ctx, time.Now(), r.As, r.Reason, letters, func(taken []postgres.DeadLetter) []error {
			return sender.send(ctx, taken)
		})
		result.Done = append(result.Done, sent...)
		for letter, why := range others {
			result.Others[letter] = why.Error()
		}
		return err
	})
}

// letterSender puts dead letters into the raw topic.
type letterSender struct {
	rules
	topic   string
	anyway  bool
	publish func(context.Context, []kafka.Record) error
}

// send returns an error for each letter of which Kafka has not acknowledged all.
func (s letterSender) send(ctx context.Context, letters []postgres.DeadLetter) []error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	failed := make([]error, len(letters))
	var records []kafka.Record
	var of []int // the letter of each record
	for i, d := range letters {
		own, err := s.records(d)
		failed[i] = err
		for _, r := range own {
			r.Topic = s.topic
			records, of = append(records, r), append(of, i)
		}
	}
	if len(records) == 0 {
		return failed
	}
	err := s.publish(ctx, records)
	var some *kafka.PublishError
	switch {
	case errors.As(err, &some):
		for _, at := range append(some.Failed, some.Refused...) {
			failed[of[at]] = fmt.Errorf("not taken by Kafka: %w", some.Err)
		}
	case err != nil:
		for _, i := range of {
			failed[i] = fmt.Errorf("it is not known whether Kafka has it; sending it again does no harm: %w", err)
		}
	}
	return failed
}

// records are what a letter is sent as; none, with the reason, if it would die again.
func (s letterSender) records(d postgres.DeadLetter) ([]kafka.Record, error) {
	r := kafka.Record{Key: d.Key, Value: d.Body, Headers: d.Headers}
	if s.unknown != "" {
		if !s.anyway {
			return nil, fmt.Errorf("%s; without it nobody knows whether it would die again (--anyway sends it as it was)", s.unknown)
		}
		return []kafka.Record{r}, nil
	}
	now := processor.ReadNow(s.endpoints, r)
	if now.Dead != "" && !s.anyway {
		return nil, fmt.Errorf("it would die again (%s: %s); --anyway sends it all the same", words(now.Dead), now.Detail)
	}
	return now.Records, nil
}

type deadLettersDiscardCmd struct {
	desk
	deadChoice
}

func (deadLettersDiscardCmd) Help() string {
	return `Settles letters for good, as dismissing their review items does: they count for nothing, stay dead in the books,
and no replay takes them over, even if they could be read. Their bytes stay in the database. What the provider sends
anew is another record and not concerned.

Examples:
  sluice dead-letters discard 0/1734 --reason "a test of ours"
  sluice dead-letters discard --cause headers --since 2h --reason "somebody wrote into the topic by hand"

Settings:
  DATABASE_URL and what belongs to it (sluice processor --help)`
}

func (r deadLettersDiscardCmd) Run(ctx context.Context, c *console) error {
	if err := r.check(); err != nil {
		return err
	}
	store, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	return r.act(ctx, c, r.desk, store, "discarded", func(ctx context.Context, letters []postgres.DeadLetterSummary, result *acted) error {
		for _, d := range letters {
			if err := store.DiscardDeadLetter(ctx, time.Now(), r.As, r.Reason, d); err != nil {
				result.Others[d.Letter] = err.Error()
				continue
			}
			result.Done = append(result.Done, d.Letter)
		}
		return nil
	})
}
