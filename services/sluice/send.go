package main

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"sluice/pkg/endpoint"
	"sluice/pkg/event"
	"sluice/pkg/order"
	"sluice/services/sluice/dev"
	"sluice/services/sluice/sample"
	"sluice/services/sluice/send"
	"sluice/services/sluice/terminal"
)

type sendCmd struct {
	Endpoint string `arg:"" optional:"" help:"Endpoint of the endpoints file; the first by default."`

	Type     order.Kind `help:"What the event states: paid, pending, failed, cancelled, refund, refund_total, refund_failed, dispute_opened, dispute_won, dispute_lost." default:"paid"`
	Order    string     `help:"Order id; with --count above 1 a number is appended. By default a new one."`
	Payment  string     `help:"Payment id. By default made from the order id, so that later events find it."`
	Object   string     `help:"Refund or dispute id. By default a new one."`
	Amount   int64      `help:"Minor units (cents)." default:"4990"`
	Total    int64      `help:"The whole payment, for refunds; the amount by default."`
	Currency string     `help:"ISO 4217; by default EUR, and UZS for Payme and Click."`
	ID       string     `help:"Event id. By default a new one."`
	Other    bool       `help:"An event of the other mode: live to a test deployment, or the reverse."`

	Count      int     `help:"How many different events." default:"1"`
	Duplicates int     `help:"How many more times each is sent."`
	Shuffle    bool    `help:"Send in random order."`
	Seed       uint64  `help:"Of the random order; the same seed gives the same order."`
	Rate       float64 `help:"Events a second; 0: as fast as answers come."`
	Burst      int     `help:"How many wait for their answers at once." default:"16"`
	Forge      bool    `help:"Change the body after it was signed."`
	File       string  `help:"Send recorded bodies instead: one JSON body, or one a line." type:"existingfile"`

	URL       string `help:"Where ingress is." env:"SLUICE_INGRESS_URL"`
	PublicURL string `help:"Where the merchant's public listener is, which Payme and Click call." env:"SLUICE_MERCHANT_PUBLIC_URL"`
	Endpoints string `help:"The endpoints file." env:"SLUICE_ENDPOINTS"`
	Mode      string `help:"The deployment's mode, live or test." env:"SLUICE_MODE"`
	DataDir   string `help:"Of a running sluice dev: where to find all three." default:".sluice"`
}

func (sendCmd) Help() string {
	return `Signs with the endpoint's own secret, as the provider would, and says how ingress answered. Without --url
and --endpoints it speaks to the sluice dev of this directory.

Examples:
  sluice send                                        one paid order at the first endpoint
  sluice send stripe --order A-1 --amount 4990       this order, paid
  sluice send stripe --order A-1 --type refund_total --amount 1990 --total 4990
  sluice send shop --order A-1 --duplicates 4        the same event five times
  sluice send stripe --forge                         a wrong signature: 401
  sluice send stripe --count 10000 --rate 1000       open loop, latency from when each was due
  sluice send stripe --count 100 --duplicates 2 --shuffle --burst 64
  sluice send stripe --file event.json               a recorded body, signed anew

Payme and Click ask before they pay: with them it calls the merchant's public listener, as they would. The order must
be registered first; amounts are tiyin.

Examples:
  sluice send payme --order A-2 --amount 12500000    check, create, perform
  sluice send payme --order A-2 --type refund        cancel what was performed
  sluice send click --order A-3 --duplicates 1       prepare and complete, each twice`
}

// Validate says everything that is wrong with what was asked for; kong calls it.
func (s *sendCmd) Validate() error {
	var problems []error
	if s.Count < 1 || s.Duplicates < 0 || s.Burst < 1 || s.Rate < 0 {
		problems = append(problems, errors.New("--count and --burst must be at least 1, --duplicates and --rate at least 0"))
	}
	if s.Amount < 0 || s.Total < 0 {
		problems = append(problems, errors.New("--amount and --total must not be negative: minor units, as in 4990 for 49.90"))
	}
	if _, ok := order.Exponent(strings.ToUpper(s.Currency)); !ok && s.Currency != "" {
		problems = append(problems, fmt.Errorf("--currency %q is not a code of ISO 4217, as EUR is", s.Currency))
	}
	return errors.Join(problems...)
}

func (s sendCmd) Run(ctx context.Context, c *console) error {
	target, to, live, err := s.target()
	if err != nil {
		return err
	}
	if to.Provider.Profile().TwoWay {
		return s.talk(ctx, c, target, to, live)
	}
	webhooks, err := s.webhooks(to, live)
	if err != nil {
		return err
	}
	seed := s.Seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	webhooks = send.Arrange(webhooks, s.Duplicates, s.Shuffle, rand.New(rand.NewPCG(seed, seed)))

	p := terminal.New(c.out)
	bar := p.Bar(len(webhooks))
	sum := target.All(ctx, webhooks, send.Pace{Rate: s.Rate, Parallel: s.Burst}, func() { bar.Add(1) })
	bar.End()
	report(p, target.URL, &sum)
	if s.File == "" && s.Count == 1 && !s.Forge {
		p.Line("%s", p.Dim("order "+s.Order+": GET its status from the merchant API, or watch the topic orders.status.v1"))
	}
	if sum.Answers[0] > 0 {
		return fmt.Errorf("%d webhooks got no answer: %w", sum.Answers[0], sum.Err)
	}
	return nil
}

func report(p *terminal.Printer, url string, sum *send.Summary) {
	p.Line("sent %d to %s in %.1f s (%.0f/s)", sum.Sent(), url, sum.Took.Seconds(), sum.Rate())
	var rows [][]string
	for _, status := range slices.Sorted(maps.Keys(sum.Answers)) {
		rows = append(rows, []string{fmt.Sprint(status), fmt.Sprint(sum.Answers[status]), send.Meaning(status)})
	}
	p.Table(rows)
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/1e6) }
	p.Line("latency p50 %s, p99 %s, max %s", ms(sum.Quantile(0.5)), ms(sum.Quantile(0.99)), ms(sum.Quantile(1)))
}

// target finds the endpoint, its secret and its address.
func (s *sendCmd) target() (send.Target, endpoint.Endpoint, bool, error) {
	e := processEnvironment()
	running, err := dev.ReadEnvironment(s.DataDir)
	if err != nil {
		return send.Target{}, endpoint.Endpoint{}, false, err
	}
	or := func(flag *string, name, fallback string) {
		if *flag == "" {
			*flag = running[name]
		}
		if *flag == "" {
			*flag = fallback
		}
	}
	or(&s.URL, "SLUICE_INGRESS_URL", "http://127.0.0.1:8080")
	or(&s.PublicURL, "SLUICE_MERCHANT_PUBLIC_URL", "http://127.0.0.1:8082")
	or(&s.Endpoints, "SLUICE_ENDPOINTS", "endpoints.yaml")
	or(&s.Mode, "SLUICE_MODE", "test")
	set, err := deployment{Endpoints: s.Endpoints, Mode: event.Mode(s.Mode)}.load(e)
	if err != nil {
		return send.Target{}, endpoint.Endpoint{}, false, err
	}
	to := set.All()[0]
	if s.Endpoint != "" {
		var ok bool
		if to, ok = set.Get(s.Endpoint); !ok {
			return send.Target{}, endpoint.Endpoint{}, false, fmt.Errorf("no endpoint %q in %s; there are %s", s.Endpoint, s.Endpoints, endpointNames(set.All()))
		}
	}
	url, currency := s.URL, "EUR"
	if to.Provider.Profile().TwoWay {
		url, currency = s.PublicURL, "UZS"
	}
	s.Currency = cmp.Or(s.Currency, currency)
	return newTarget(url, to, s.Burst), to, (s.Mode == "live") != s.Other, nil
}

func newTarget(url string, to endpoint.Endpoint, parallel int) send.Target {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = parallel
	return send.To(strings.TrimRight(url, "/")+"/webhooks/"+to.Name, to, &http.Client{Transport: transport, Timeout: 30 * time.Second})
}

// webhooks makes what is asked for, before it is repeated or shuffled.
func (s *sendCmd) webhooks(to endpoint.Endpoint, live bool) ([]send.Webhook, error) {
	if s.File != "" {
		text, err := os.ReadFile(s.File)
		if err != nil {
			return nil, err
		}
		all, err := send.Recorded(text, func() string { return newID("msg_") })
		if err != nil {
			return nil, fmt.Errorf("read recorded file %s: %w", s.File, err)
		}
		for i := range all {
			all[i].Forge = s.Forge
		}
		return all, nil
	}
	if s.Order == "" {
		s.Order = newID("order-")
	}
	all := make([]send.Webhook, 0, s.Count)
	for i := range s.Count {
		w, err := webhookOf(to, s.fact(i, live))
		if err != nil {
			return nil, err
		}
		all = append(all, send.Webhook{Webhook: w, Forge: s.Forge})
	}
	return all, nil
}

func (s *sendCmd) fact(i int, live bool) sample.Fact {
	f := sample.Fact{Kind: s.Type, ID: s.ID, Order: s.Order, Payment: s.Payment, Object: s.Object, Amount: s.Amount,
		Total: s.Total, Currency: strings.ToUpper(s.Currency), Time: time.Now(), Live: live}
	if s.Count > 1 {
		f.Order = fmt.Sprintf("%s-%d", s.Order, i+1)
	}
	if f.Payment == "" || s.Count > 1 {
		f.Payment = "pi_" + f.Order
	}
	if f.ID == "" || s.Count > 1 {
		f.ID = newID("evt_")
	}
	if f.Object == "" {
		f.Object = newID("obj_")
	}
	if f.Total == 0 {
		f.Total = f.Amount
	}
	return f
}

// webhookOf makes the webhook by which an endpoint's provider would state a fact.
func webhookOf(to endpoint.Endpoint, f sample.Fact) (sample.Webhook, error) {
	if to.Declaration != nil {
		return sample.Declared(to.Declaration.Reading, f)
	}
	return sample.Make(to.Provider.Name(), f)
}

func newID(prefix string) string { return prefix + strings.ToLower(crand.Text()[:12]) }
