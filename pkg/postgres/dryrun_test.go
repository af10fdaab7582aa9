package postgres_test

import (
	"strings"
	"testing"
	"time"

	"sluice/pkg/postgres"
	"sluice/pkg/testkit"
)

// What only writes, and nobody thought of, goes to a transaction that may only read.
func TestADryRunRefusesWhatItCannotAnswer(t *testing.T) {
	s := testkit.Store(t)
	err := s.DryRun().InTx(t.Context(), func(tx postgres.Tx) error {
		return tx.AddAuditEntry(t.Context(), postgres.AuditEntry{At: time.Now(), Who: "ana", Action: "a", Subject: "s", Reason: "r"})
	})
	if err == nil || !strings.Contains(err.Error(), "read-only transaction") {
		t.Errorf("%v: it was written", err)
	}
}
