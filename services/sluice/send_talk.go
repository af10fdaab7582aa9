package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"

	"sluice/pkg/endpoint"
	"sluice/services/sluice/send"
	"sluice/services/sluice/terminal"
)

var errAnswered = errors.New("the merchant did not answer every call well")

// talk has a provider that asks before it pays talk to the merchant about each order.
func (s *sendCmd) talk(ctx context.Context, c *console, target send.Target, to endpoint.Endpoint, live bool) error {
	if s.File != "" || s.Shuffle || s.Rate > 0 || s.Other {
		return usageError{fmt.Errorf("--file, --shuffle, --rate and --other are not for %s: its calls follow from the answers", to.Provider.Name())}
	}
	if s.Order == "" {
		return usageError{fmt.Errorf("%s asks about an order that the shop has registered: give --order", to.Provider.Name())}
	}
	p := terminal.New(c.out)
	bar := p.Bar(s.Count)
	var (
		mu   sync.Mutex
		talk [][]send.Call
		fail error
		wg   sync.WaitGroup
		jobs = make(chan int)
	)
	for range min(s.Burst, s.Count) {
		wg.Go(func() {
			for i := range jobs {
				calls, err := target.Talk(ctx, to, s.fact(i, live), s.Duplicates, s.Forge)
				mu.Lock()
				talk, fail = append(talk, calls), errors.Join(fail, err)
				mu.Unlock()
				bar.Add(1)
			}
		})
	}
	for i := range s.Count {
		jobs <- i
	}
	close(jobs)
	wg.Wait()
	bar.End()
	if fail != nil {
		return fail
	}
	return s.told(p, target.URL, talk)
}

// told prints one talk call by call, and of many what they were answered.
func (s *sendCmd) told(p *terminal.Printer, url string, talks [][]send.Call) error {
	rows, good, ended := [][]string{}, true, map[string]int{}
	for _, calls := range talks {
		for _, call := range calls {
			text := call.Text
			switch {
			case call.Status == 0:
				text = "no answer: " + call.Err.Error()
			case call.Status != http.StatusOK:
				text = fmt.Sprintf("HTTP status %d: %s", call.Status, send.Meaning(call.Status))
			}
			good = good && call.Status == http.StatusOK && call.Code == 0
			rows = append(rows, []string{call.Name, printable(text)})
			ended[call.Name+": "+printable(text)]++
		}
	}
	p.Line("called %s", url)
	if len(talks) == 1 {
		p.Table(rows)
	} else {
		p.Line("%d orders, %d calls", len(talks), len(rows))
	}
	if !good {
		if len(talks) > 1 {
			for _, text := range slices.Sorted(maps.Keys(ended)) {
				if ended[text] > 1 || len(ended) < 20 {
					p.Line("  %d × %s", ended[text], text)
				}
			}
		}
		return errAnswered
	}
	return nil
}
