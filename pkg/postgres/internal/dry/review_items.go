package dry

import (
	"context"

	"github.com/jackc/pgx/v5/pgtype"

	"sluice/pkg/postgres/internal/dbgen"
)

type reviewKey struct{ kind, subject string }

// reviewItem is whether people are asked.
type reviewItem struct {
	there, open bool // is it
	wasOpen     bool // before the dry run
}

// items reads what the dry run does not know.
func (t *Tables) items(ctx context.Context, kind string, subjects []string) (map[string]reviewItem, error) {
	items := make(map[string]reviewItem, len(subjects))
	var ask []string
	for _, s := range subjects {
		if i, ok := t.reviews[reviewKey{kind, s}]; ok {
			items[s] = i
		} else {
			ask = append(ask, s)
		}
	}
	if len(ask) == 0 {
		return items, nil
	}
	rows, err := t.ReadReviewItems(ctx, kind, ask)
	for _, r := range rows {
		open := !r.SettledAt.Valid
		items[r.Subject] = reviewItem{there: true, open: open, wasOpen: open}
	}
	return items, err
}

// AddReviewItem adds an item unless it is there, and returns how many it added.
func (t *Tables) AddReviewItem(ctx context.Context, arg dbgen.AddReviewItemParams) (int64, error) {
	items, err := t.items(ctx, arg.Kind, []string{arg.Subject})
	if err != nil || items[arg.Subject].there {
		return 0, err
	}
	put(t, t.reviews, reviewKey{arg.Kind, arg.Subject}, reviewItem{there: true, open: true})
	return 1, nil
}

// OpenReviewItem adds an item, or opens it again.
func (t *Tables) OpenReviewItem(ctx context.Context, arg dbgen.OpenReviewItemParams) error {
	items, err := t.items(ctx, arg.Kind, []string{arg.Subject})
	if i := items[arg.Subject]; err == nil && !i.open {
		put(t, t.reviews, reviewKey{arg.Kind, arg.Subject}, reviewItem{there: true, open: true, wasOpen: i.wasOpen})
	}
	return err
}

// SettleReviewItems settles those that are open.
func (t *Tables) SettleReviewItems(ctx context.Context, _, kind string, subjects []string) error {
	items, err := t.items(ctx, kind, subjects)
	for s, i := range items {
		if i.open {
			i.open = false
			put(t, t.reviews, reviewKey{kind, s}, i)
		}
	}
	return err
}

// MoveReviewItems and MoveReviewItemsOf: an item is known by its subject.
func (t *Tables) MoveReviewItems(context.Context, []int64, []int64) error { return nil }

// MoveReviewItemsOf changes nothing, either.
func (t *Tables) MoveReviewItemsOf(context.Context, []int64, []int64, []pgtype.UUID) error {
	return nil
}
