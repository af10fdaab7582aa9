package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"time"

	"sluice/pkg/endpoint"
	"sluice/pkg/kafka"
	"sluice/pkg/postgres"
	"sluice/services/sluice/explain"
	"sluice/services/sluice/terminal"
)

type explainCmd struct {
	ID         string `arg:"" help:"An event's, an order's or a payment's."`
	Source     string `help:"Of which source, where several have such an id."`
	As         string `help:"event, order, payment or dead_letter, where it is several." enum:",event,order,payment,dead_letter" default:""`
	Deliveries bool   `help:"Also look for all deliveries of an event: reads one partition of the raw topic."`
	Body       bool   `help:"Show the body too. It may hold personal data."`
	JSON       bool   `help:"For programs." name:"json"`
	DataDir    string `help:"Of a running sluice dev, for what the environment does not say." default:".sluice"`
}

func (explainCmd) Help() string {
	return `Says how an event came in, whether its signature holds (verified again over the stored bytes, as of their
receipt), where it lies, whether it was taken over, what it did to its order or why it is held, and what was published.
Of an order or payment it tells the whole story. Secrets are never printed, bodies only with --body. It changes nothing.

Examples:
  sluice explain A-1                         an order
  sluice explain pi_A-1                      a payment: the order that it leads to
  sluice explain evt_1 --deliveries          an event, with every delivery
  sluice explain evt_1 --source stripe-us    of the source that is meant
  sluice explain A-1 --json | jq .order.messages

Settings:
  DATABASE_URL; with KAFKA_BROKERS it looks into the topics, with SLUICE_ENDPOINTS and SLUICE_MODE it verifies signatures`
}

// explainConnect bounds the wait for Kafka, without which there is still much to say.
const explainConnect = 5 * time.Second

func (x explainCmd) Run(ctx context.Context, c *console) error {
	e, err := running(x.DataDir)
	if err != nil {
		return err
	}
	db, err := read[postgres.Config](e)
	if err != nil {
		return err
	}
	store, err := postgres.Open(ctx, db, 2)
	if err != nil {
		return err
	}
	defer store.Close()
	out := terminal.New(c.out)
	var bar *terminal.Bar
	note := time.NewTimer(0) // says what takes long, once it does
	defer func() { note.Stop(); end(&bar) }()
	ex := explain.Explainer{Store: store, Secrets: secrets(e), Searching: func(what string) explain.Progress {
		if x.JSON {
			return explain.Progress{}
		}
		note.Stop()
		note = time.AfterFunc(time.Second, func() { terminal.New(c.err).Line("looking through %s", what) })
		return explain.Progress{Total: func(n int) { bar = terminal.New(c.err).Bar(n) }, Step: func(n int) { bar.Add(n) }}
	}}
	ex.Topics, ex.NoTopics = topics(ctx, e)
	if ex.Topics != nil {
		defer ex.Topics.Close()
	}
	answer, err := ex.Explain(ctx, explain.Question{ID: x.ID, Source: x.Source, As: x.As, Body: x.Body, Deliveries: x.Deliveries})
	note.Stop()
	end(&bar)
	if err != nil {
		return err
	}
	if x.JSON {
		enc := json.NewEncoder(c.out)
		enc.SetIndent("", "  ")
		return enc.Encode(answer)
	}
	answer.Print(out, time.UTC)
	return nil
}

func topics(ctx context.Context, e environment) (*explain.Topics, string) {
	cfg, err := read[kafka.Config](e)
	if err != nil {
		return nil, err.Error()
	}
	ctx, cancel := context.WithTimeout(ctx, explainConnect)
	defer cancel()
	t, err := explain.OpenTopics(ctx, cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err.Error()
	}
	return t, ""
}

// secrets are the endpoints with what they verify with. Without the secrets their
// readings are still of use.
func secrets(e environment) explain.Secrets {
	d, err := read[deployment](e)
	if err != nil {
		return explain.Secrets{Problem: "the endpoints file is not known here: " + err.Error()}
	}
	set, err := d.load(e)
	if err == nil {
		return explain.Secrets{Endpoints: set}
	}
	problem := "the endpoints' secrets are not known here"
	if set, err = endpoint.LoadWithoutSecrets(d.Endpoints, d.Mode, os.ReadFile); err != nil {
		problem = "the endpoints file cannot be read here"
	}
	return explain.Secrets{Endpoints: set, Problem: problem}
}
