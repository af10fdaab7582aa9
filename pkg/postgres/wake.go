package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// WakeRelays tells listening relays that transitions were committed. Call it
// after the commit: inside, it would take the database's one commit lock. It is
// only a hint; relays also poll, so an error may be dropped.
func (s *Store) WakeRelays(ctx context.Context) error {
	if _, err := s.pool.Exec(ctx, `NOTIFY order_transitions`); err != nil {
		return fmt.Errorf("wake relays: %w", err)
	}
	return nil
}

// ListenTransitions calls woken once when it listens and after every WakeRelays,
// on a connection of its own, until ctx ends or the connection breaks.
func (s *Store) ListenTransitions(ctx context.Context, woken func()) error {
	return s.listen(ctx, "order_transitions", "order transitions", woken)
}

// listen calls woken once when it listens to the channel and after every word on it.
func (s *Store) listen(ctx context.Context, channel, what string, woken func()) error {
	conn, err := pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig)
	if err != nil {
		return fmt.Errorf("connect to listen for %s: %w", what, err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return fmt.Errorf("listen for %s: %w", what, err)
	}
	for {
		woken()
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return fmt.Errorf("listen for %s: %w", what, err)
		}
	}
}
