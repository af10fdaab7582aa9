package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/pkg/order"
	"sluice/pkg/postgres"
	"sluice/services/sluice/terminal"
)

type reviewCmd struct {
	List    reviewListCmd    `cmd:"" help:"What waits for a person, the oldest first."`
	Show    reviewShowCmd    `cmd:"" help:"All there is to know about one item, and what accepting it would do."`
	Claim   reviewClaimCmd   `cmd:"" help:"Take an item for a quarter of an hour, so that nobody else decides on it."`
	Accept  reviewAcceptCmd  `cmd:"" help:"Apply the held event anyway."`
	Dismiss reviewDismissCmd `cmd:"" help:"The held event or dead letter counts for nothing; of other items: seen."`
	Link    reviewLinkCmd    `cmd:"" help:"The held event belongs to another order."`
	Refetch reviewRefetchCmd `cmd:"" help:"Have the provider asked; the event stays held until it answers."`
}

type reviewListCmd struct {
	desk
	Kind  string `help:"Only these: held, dead_letter, body_changed, offset_gap, future_time, payment_crossed, message_refused, lookup_unanswered, order_hanging, provider_contradicts, effect_failed, effect_outdated." placeholder:"KIND" enum:"held,dead_letter,body_changed,offset_gap,future_time,payment_crossed,message_refused,lookup_unanswered,order_hanging,provider_contradicts,effect_failed,effect_outdated," default:""`
	All   bool   `help:"Also what is settled."`
	Limit int    `help:"At most so many." default:"100"`
}

func (reviewListCmd) Help() string {
	return `Examples:
  sluice review list                   what is open
  sluice review list --kind held       only held events
  sluice review list --all --json | jq '.[] | select(.settled_by == "anna")'

Settings:
  DATABASE_URL and what belongs to it (sluice processor --help)`
}

func (r reviewListCmd) Run(ctx context.Context, c *console) error {
	store, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	items, err := store.ListReviewItems(ctx, time.Now(), postgres.ReviewKind(r.Kind), r.All, r.Limit)
	if err != nil {
		return err
	}
	return r.say(c, items, func(p *terminal.Printer) { printReviewItems(p, items) })
}

type reviewShowCmd struct {
	desk
	ID int64 `arg:"" help:"The item's number, as in the list."`
}

func (reviewShowCmd) Help() string {
	return `Shows the order with its amounts, what the event says and why it is held, where its bytes are, and what would
become of the order if the event were accepted. It changes nothing.

Examples:
  sluice review show 7
  sluice review show 7 --json | jq .on_accept`
}

func (r reviewShowCmd) Run(ctx context.Context, c *console) error {
	store, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	found, err := store.ReviewCase(ctx, time.Now(), r.ID)
	if err != nil {
		return err
	}
	return r.say(c, found, func(p *terminal.Printer) { printReviewCase(p, found) })
}

// person is who acts on which item.
type person struct {
	ID int64  `arg:"" help:"The item's number, as in the list."`
	As string `help:"Who you are, for the audit log." env:"USER" placeholder:"NAME"`
}

type reviewClaimCmd struct {
	desk
	person
}

func (reviewClaimCmd) Help() string {
	return `Of several people one gets the item. Claiming it again begins the quarter of an hour anew. What you decide
then holds only if the order has not changed since.

Examples:
  sluice review claim 7
  sluice review claim 7 --as anna`
}

func (r reviewClaimCmd) Run(ctx context.Context, c *console) error {
	if err := named(r.As); err != nil {
		return err
	}
	store, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := store.ClaimReviewItem(ctx, time.Now(), r.ID, r.As); err != nil {
		return err
	}
	found, err := store.ReviewCase(ctx, time.Now(), r.ID)
	if err != nil {
		return err
	}
	return r.say(c, found, func(p *terminal.Printer) { printReviewCase(p, found) })
}

// decision is what every decision needs.
type decision struct {
	desk
	person
	Reason string `help:"Why, for the audit log." required:"" placeholder:"TEXT"`
}

// decide carries a decision out and says what it did.
func (r decision) decide(ctx context.Context, c *console, complete func(context.Context, *postgres.Store, *postgres.Decision) error) error {
	store, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	e, err := running(r.DataDir)
	if err != nil {
		return err
	}
	declared, err := read[effects](e)
	if err == nil {
		err = declared.agree(ctx, store)
	}
	if err != nil {
		return fmt.Errorf("what you decide may cause effects: %w", err)
	}
	d := postgres.Decision{Item: r.ID, Who: r.As, Reason: r.Reason}
	if err := complete(ctx, store, &d); err != nil {
		return err
	}
	done, err := store.Decide(ctx, time.Now(), d)
	switch {
	case errors.Is(err, postgres.ErrNotClaimed), errors.Is(err, postgres.ErrOutdated):
		return fmt.Errorf("%w\n  sluice review claim %d", err, r.ID)
	case err != nil:
		return err
	}
	if done.Changes > 0 {
		_ = store.WakeRelays(ctx) // only a hint: relays find out by themselves
	}
	return r.say(c, done, func(p *terminal.Printer) { printDecided(p, d, done) })
}

type reviewAcceptCmd struct {
	decision
	Amount string `help:"What the event counts for, in the order's currency; by default what it states." placeholder:"12.50"`
}

func (reviewAcceptCmd) Help() string {
	return `Applies the event although it does not fit, in the place of the order's story where it belongs. It is refused
if even then the event could not count: without a registered order, say, or as a refund of no payment.

Examples:
  sluice review accept 7 --reason "the customer paid the fee elsewhere, ticket 4711"
  sluice review accept 7 --amount 12.50 --reason "the provider rounds"`
}

func (r reviewAcceptCmd) Run(ctx context.Context, c *console) error {
	return r.decide(ctx, c, func(ctx context.Context, store *postgres.Store, d *postgres.Decision) error {
		d.Action = postgres.Accept
		if r.Amount == "" {
			return nil
		}
		found, err := store.ReviewCase(ctx, time.Now(), r.ID)
		switch {
		case err != nil:
			return err
		case found.OrderNow == nil || found.OrderNow.Currency == "":
			return errors.New("--amount: the item has no registered order, and so no currency")
		}
		minor, err := order.ParseDecimal(r.Amount, found.OrderNow.Currency)
		if err != nil {
			return fmt.Errorf("--amount: %w", err)
		}
		d.Amount = &minor
		return nil
	})
}

type reviewDismissCmd struct{ decision }

func (reviewDismissCmd) Help() string {
	return `The event does not count. A look-up that is unanswered is given up, and the hints that wait for it change
nothing; a later hint asks again. A dead letter is discarded: no replay takes it over (sluice dead-letters). Any other
item was seen.

Examples:
  sluice review dismiss 7 --reason "a test payment of ours"
  sluice review dismiss 8 --reason "told the provider about the changed body"`
}

func (r reviewDismissCmd) Run(ctx context.Context, c *console) error {
	return r.decide(ctx, c, func(_ context.Context, _ *postgres.Store, d *postgres.Decision) error {
		d.Action = postgres.Dismiss
		return nil
	})
}

type reviewLinkCmd struct {
	decision
	To string `help:"The order it belongs to." required:"" placeholder:"ORDER"`
}

func (reviewLinkCmd) Help() string {
	return `The event counts in the other order, with all that is held of the same payment. What comes later and names
only that payment goes there too.

Examples:
  sluice review link 7 --to A-1001 --reason "the shop sent the wrong reference"`
}

func (r reviewLinkCmd) Run(ctx context.Context, c *console) error {
	return r.decide(ctx, c, func(_ context.Context, _ *postgres.Store, d *postgres.Decision) error {
		d.Action, d.OrderID = postgres.Link, r.To
		return nil
	})
}

type reviewRefetchCmd struct{ decision }

func (reviewRefetchCmd) Help() string {
	return `Arms a look-up of the payment at its provider. The answer is an event of its own. If it does not settle the
matter, the item opens again when the grace of awaiting_provider is over. A look-up that is unanswered is tried at
once.

Examples:
  sluice review refetch 7 --reason "the amounts look wrong"`
}

func (r reviewRefetchCmd) Run(ctx context.Context, c *console) error {
	return r.decide(ctx, c, func(_ context.Context, _ *postgres.Store, d *postgres.Decision) error {
		d.Action = postgres.Refetch
		return nil
	})
}
