// Command serve runs the example receiver:
//
//	DATABASE_URL=postgres://… FULFIL_SECRET=whsec_… go run ./integration/receiver/serve 127.0.0.1:8090
package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"sluice/integration/receiver"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "receiver:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	address := "127.0.0.1:8090"
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	db, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return fmt.Errorf("read DATABASE_URL: %w", err)
	}
	defer db.Close()
	if _, err := db.Exec(ctx, receiver.Schema); err != nil {
		return fmt.Errorf("make the tables: %w", err)
	}
	r, err := receiver.New(db, slog.Default(), receiver.Ship, os.Getenv("FULFIL_SECRET"))
	if err != nil {
		return fmt.Errorf("FULFIL_SECRET: %w", err)
	}
	slog.Info("receiving", "address", address)
	s := &http.Server{Addr: address, Handler: r, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second}
	return s.ListenAndServe()
}
