package real

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/postgres"
)

// PostgresImage is the official image of the oldest version that Sluice
// supports. SLUICE_TEST_POSTGRES_IMAGE names another.
const PostgresImage = "postgres:15"

const postgresUser, postgresPassword = "postgres", "postgres"

// PostgresOptions may be left empty.
type PostgresOptions struct {
	Kind     Kind              // "" takes what the machine has, Docker first
	Settings map[string]string // on top of the defaults, by their names in postgresql.conf
}

// Postgres is one PostgreSQL server.
type Postgres struct {
	Server
	url string
}

// URL is a superuser's connection string, so that tests can create databases.
func (p *Postgres) URL() string { return p.url }

// StartPostgres returns a server that answers. The caller closes it.
func StartPostgres(ctx context.Context, options PostgresOptions) (*Postgres, error) {
	kind, err := choose(ctx, "PostgreSQL", options.Kind,
		attempt{Docker, func(ctx context.Context) error { _, _, err := postgresImage(ctx); return err }},
		attempt{Native, func(context.Context) error { _, err := postgresPrograms(); return err }})
	if err != nil {
		return nil, err
	}
	p := &Postgres{Server: Server{name: "PostgreSQL", kind: kind}}
	p.ready = func(ctx context.Context) error { return PingPostgres(ctx, p.url) }
	if kind == Docker {
		err = p.startInDocker(ctx, options)
	} else {
		err = p.startNatively(ctx, options)
	}
	if err == nil {
		err = p.awaitReady(ctx)
	}
	if err != nil {
		if p.host != nil {
			_ = p.Close() // The first error is the one to report.
		}
		return nil, fmt.Errorf("start PostgreSQL (%s): %w", kind, err)
	}
	return p, nil
}

// PingPostgres asks the server for a row once.
func PingPostgres(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	return conn.QueryRow(ctx, "select 1").Scan(new(int))
}

func postgresImage(ctx context.Context) (name, origin string, err error) {
	if other := os.Getenv("SLUICE_TEST_POSTGRES_IMAGE"); other != "" {
		return other, other, nil
	}
	return image(ctx, PostgresImage, "postgres")
}

func (p *Postgres) startInDocker(ctx context.Context, options PostgresOptions) error {
	name, origin, err := postgresImage(ctx)
	if err != nil {
		return err
	}
	docker, err := connect()
	if err != nil {
		return err
	}
	address, err := dockerHost(ctx)
	if err != nil {
		return err
	}
	port, err := freePort(ctx)
	if err != nil {
		return err
	}
	p.origin, p.url = origin, postgresURL(address, port)
	started, err := postgres.Run(ctx, name,
		postgres.WithUsername(postgresUser), postgres.WithPassword(postgresPassword), postgres.WithDatabase("postgres"),
		// In place of the module's own command, which turns fsync off.
		testcontainers.WithCmd(append([]string{"postgres"}, arguments(options)...)...),
		labels("postgres"),
		publish(address, 5432, port),
		postgres.BasicWaitStrategies())
	if started != nil {
		p.host = &container{docker: docker, started: started, stopSignal: "SIGINT"}
	}
	return err
}

// arguments raise sizes only. Many tests have a pool each, hence the connections.
func arguments(options PostgresOptions) []string {
	all := map[string]string{"max_connections": "300", "shared_buffers": "256MB"}
	maps.Copy(all, options.Settings)
	var args []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		args = append(args, "-c", name+"="+all[name])
	}
	return args
}

func postgresURL(host string, port int) string {
	return fmt.Sprintf("postgres://%s:%s@%s:%d/postgres?sslmode=disable", postgresUser, postgresPassword, host, port)
}
