package devbroker

import (
	"context"
	"fmt"
	"log/slog"
	"net"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// repair sets committed offsets beyond their partition's end back to the end.
// It runs before anybody else can connect, so nothing is written between.
func (b *Broker) repair(ctx context.Context, log *slog.Logger) error {
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(b.Addr()),
		kgo.Dialer(func(context.Context, string, string) (net.Conn, error) { return b.guard.dial() }),
		kgo.DisableClientMetrics(),
	)
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	groups, err := adm.ListGroups(ctx)
	if err != nil {
		return fmt.Errorf("list groups: %w", err)
	}
	if len(groups) == 0 {
		return nil
	}
	ends, err := adm.ListEndOffsets(ctx)
	if err != nil {
		return fmt.Errorf("list end offsets: %w", err)
	}
	for _, group := range groups.Groups() {
		committed, err := adm.FetchOffsets(ctx, group)
		if err != nil {
			return fmt.Errorf("read offsets of group %s: %w", group, err)
		}
		var beyond kadm.Offsets
		committed.Each(func(o kadm.OffsetResponse) {
			end, ok := ends.Lookup(o.Topic, o.Partition)
			if !ok || end.Err != nil || o.At <= end.Offset {
				return
			}
			beyond.AddOffset(o.Topic, o.Partition, end.Offset, -1)
			log.Warn("records were lost: a group's committed offset lay beyond the end of its partition and was set back to it",
				"group", group, "topic", o.Topic, "partition", o.Partition, "committed", o.At, "end", end.Offset)
		})
		if len(beyond) == 0 {
			continue
		}
		if err := adm.CommitAllOffsets(ctx, group, beyond); err != nil {
			return fmt.Errorf("set offsets of group %s back: %w", group, err)
		}
	}
	return nil
}

// brokerLog shows the broker's own warnings; what it says about single
// connections is noise.
type brokerLog struct{ *slog.Logger }

func (l brokerLog) Logf(level kfake.LogLevel, format string, args ...any) {
	switch level {
	case kfake.LogLevelError:
		l.Error(fmt.Sprintf(format, args...))
	case kfake.LogLevelWarn:
		l.Warn(fmt.Sprintf(format, args...))
	}
}
