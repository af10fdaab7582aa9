package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// machine describes what the figures were taken on, a line each.
func machine(ctx context.Context, others float64) []string {
	lines := []string{fmt.Sprintf("%d CPUs, %s, %s", runtime.NumCPU(), field("/proc/cpuinfo", "model name"), memory())}
	lines = append(lines, fmt.Sprintf("%s %s, %s", runtime.GOOS, strings.TrimSpace(text("/proc/sys/kernel/osrelease")), runtime.Version()))
	lines = append(lines, fmt.Sprintf("Apache Kafka from %s, default durability, one broker", part("SLUICE_TEST_KAFKA_PART")))
	lines = append(lines, fmt.Sprintf("%s from %s", database(ctx), part("SLUICE_TEST_POSTGRES_PART")))
	return append(lines, fmt.Sprintf("other programs used %.0f %% of the CPUs when the run began", 100*others))
}

// ownCPU is the processor time this process has used: the load generator's.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// part says how integration/parts came by a server.
func part(variable string) string {
	if kind := os.Getenv(variable); kind != "" {
		return kind
	}
	return "a given address"
}

// database is the server's version and the settings that decide most.
func database(ctx context.Context) string {
	c, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return "PostgreSQL"
	}
	defer func() { _ = c.Close(ctx) }()
	setting := func(name string) (value string) {
		_ = c.QueryRow(ctx, "SELECT current_setting($1)", name).Scan(&value) // Only a description.
		return value
	}
	version, _, _ := strings.Cut(setting("server_version"), " ")
	return fmt.Sprintf("PostgreSQL %s (fsync %s, synchronous_commit %s, shared_buffers %s, max_wal_size %s)", version,
		setting("fsync"), setting("synchronous_commit"), setting("shared_buffers"), setting("max_wal_size"))
}

func memory() string {
	var kib int64
	if _, err := fmt.Sscanf(field("/proc/meminfo", "MemTotal"), "%d kB", &kib); err != nil {
		return "memory unknown"
	}
	return fmt.Sprintf("%d GiB", (kib+1<<19)>>20)
}

// field is the value of the first line `name : value` of a file; "unknown" where
// the system has none.
func field(path, name string) string {
	for line := range strings.Lines(text(path)) {
		if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func text(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(b)
}
