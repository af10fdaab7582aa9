package processor

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"sluice/pkg/order"
	"sluice/pkg/postgres"
)

func TestNothingIsReportedPausedBeforeItsBatchIsThrough(t *testing.T) {
	w := newWorld(t, 1)
	w.payments(1, 5, 1)
	w.start(small(), w.deps())
	w.caughtUp()
	w.register(1000, "ord_6")
	free := w.hold("evt_6", "ord_6")
	w.send(stated{id: "evt_6", order: "ord_6", payment: "pi_6", kind: order.KindPaid, amount: 1000})
	w.held()
	id := w.ask(postgres.ReplayTarget{Partition: 0, From: 0})
	for range 100 {
		if by := w.asked(id).Partitions[0].PausedBy; by != "" {
			t.Fatal("it says that it is paused while its batch waits for an order")
		}
	}
	free()
	w.paused(id)
	if w.status("ord_6") != order.Paid {
		t.Error("it is paused, and its batch is not through")
	}
}

func TestAToolThatDiesBeforeItStartsTheReplayCostsAPauseAndNothingElse(t *testing.T) {
	w := newWorld(t, 2)
	w.payments(1, 20, 2)
	p, _ := w.start(small(), w.deps())
	w.caughtUp()
	id := w.ask(postgres.ReplayTarget{Partition: 0, From: 0})
	w.paused(id)
	w.payments(21, 10, 2)
	w.exec(`UPDATE replays SET pause_until = clock_timestamp()`) // ten seconds later
	w.caughtUp()
	w.over(id, postgres.ReplayAbandoned)
	w.paidOnce(30)
	if n := testutil.CollectAndCount(p.metrics.again); n != 0 {
		t.Error("something was read again")
	}
}

// Whoever asked is gone, and the database does not even say no.
func TestAPauseEndsThoughTheDatabaseDoesNotAnswer(t *testing.T) {
	w := newWorld(t, 1)
	w.patient()
	w.payments(1, 5, 1)
	w.start(small(), w.deps())
	w.caughtUp()
	w.paused(w.ask(postgres.ReplayTarget{Partition: 0}))
	tx, err := w.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.Exec(`LOCK TABLE replays`); err != nil {
		t.Fatal(err)
	}
	w.payments(6, 1, 1)
	w.until("live traffic goes on", func() bool { return w.status("ord_6") == order.Paid })
}

func TestALaneReadsNothingWhileItIsPaused(t *testing.T) {
	w := newWorld(t, 1)
	w.quick()
	w.payments(1, 20, 1)
	_, stop := w.start(small(), w.deps())
	w.caughtUp()
	stop()
	w.reset(0, 0)
	free := w.hold("evt_5", "ord_5")
	w.start(small(), w.deps())
	w.held()
	id := w.ask(postgres.ReplayTarget{Partition: 0})
	w.paused(id)
	for range 500 {
		if w.number(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) > 0 {
			t.Fatal("it says that it is paused, and tries the order")
		}
	}
	free()
	if err := w.store.AbandonReplay(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	w.caughtUp()
	w.paidOnce(20)
}

// Whoever asked is gone, and the lane does not even hear of the pause: its transaction
// waits for an order.
func TestAPauseEndsThoughTheLaneIsStuck(t *testing.T) {
	w := newWorld(t, 1)
	w.patient()
	w.payments(1, 20, 1)
	_, stop := w.start(small(), w.deps())
	w.caughtUp()
	stop()
	w.reset(0, 0)
	free := w.hold("evt_5", "ord_5")
	paused := make(chan bool, 10)
	deps := w.deps()
	deps.Log = slog.New(slog.NewTextHandler(hears{"paused for a replay", paused}, nil))
	w.start(small(), deps)
	w.held()
	w.ask(postgres.ReplayTarget{Partition: 0})
	<-paused
	w.payments(21, 1, 1)
	w.until("live traffic goes on", func() bool { return w.status("ord_21") == order.Paid })
	if w.number(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == 0 {
		t.Error("it went on when the lane did")
	}
	free()
	w.caughtUp()
	w.paidOnce(21)
}

// hears tells of log lines.
type hears struct {
	line string
	told chan<- bool
}

func (h hears) Write(line []byte) (int, error) {
	if strings.Contains(string(line), h.line) {
		h.told <- true
	}
	return len(line), nil
}

// An emptied ledger makes every record of a chunk one of a transaction.
func TestALaneMakesWayBetweenTwoTransactionsOfAChunk(t *testing.T) {
	w := newWorld(t, 1)
	w.payments(1, 20, 1)
	_, stop := w.start(small(), w.deps())
	w.caughtUp()
	stop()
	w.reset(0, 0)
	w.hold("evt_15", "ord_1")() // unknown, and free
	free := w.hold("evt_5", "ord_5")
	p, _ := w.start(Config{Workers: 1, Batch: 1, Chores: time.Hour}, w.deps())
	w.held()
	halted, on := make(chan bool), make(chan bool)
	p.workers[0].lane.Load().changes <- func() { close(halted); <-on } // as a pause and a rebalance do
	free()
	<-halted
	if n := w.number(`SELECT count(*) FROM processed_events`); n != 19 {
		t.Errorf("%d events are known, want all but the one that a transaction of its own would bring", n)
	}
	close(on)
	w.caughtUp()
	w.paidOnce(20)
}
