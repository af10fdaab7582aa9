package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
	"sluice/services/processor"
	"sluice/services/sluice/terminal"
)

// deadChoice is which letters are acted on, by whom and why.
type deadChoice struct {
	deadFilter
	Letters []string `arg:"" optional:"" help:"PARTITION/OFFSET, as in the list."`
	All     bool     `help:"Instead of letters or a filter: every one that is open."`
	As      string   `help:"Who you are, for the audit log." env:"USER" placeholder:"NAME"`
	Reason  string   `help:"Why, for the audit log." required:"" placeholder:"TEXT"`
}

func (r deadChoice) check() error {
	if count(len(r.Letters) > 0, r.given(), r.All) != 1 {
		return usageError{errors.New("name letters, or choose them by --endpoint, --cause and --since, or all that are open with --all")}
	}
	if err := accountable(r.As, r.Reason); err != nil {
		return usageError{err}
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
	bar := d.progress(c.err).Bar(len(letters))
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
meanwhile: its review item is claimed first. A letter that would die again is not sent, and whoever wants may act
on it.

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
			return nil, fmt.Errorf("%w: %s; without it nobody knows whether it would die again (--anyway sends it as it was)", postgres.ErrWithheld, s.unknown)
		}
		return []kafka.Record{r}, nil
	}
	now := processor.ReadNow(s.endpoints, r)
	if now.Dead != "" && !s.anyway {
		return nil, fmt.Errorf("%w: it would die again (%s: %s); --anyway sends it all the same", postgres.ErrWithheld, words(now.Dead), now.Detail)
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
