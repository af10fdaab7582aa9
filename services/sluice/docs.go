package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"sluice/pkg/contract/pages"
)

type docsCmd struct {
	Out     string `help:"Write the pages into this directory." placeholder:"DIR"`
	Serve   bool   `help:"Show them in a browser, until Ctrl-C."`
	Address string `help:"Where to serve: host:port." default:"127.0.0.1:8085"`
}

func (docsCmd) Help() string {
	return `Topics, HTTP and every schema with its examples, as pages that need no network. Each role
shows the same under /docs/ of its admin address.

Examples:
  sluice docs --serve
  sluice docs --out site`
}

func (d docsCmd) Run(ctx context.Context, c *console) error {
	if d.Out == "" && !d.Serve {
		return usageError{errors.New("say --serve, or --out DIR")}
	}
	if d.Out != "" {
		if err := pages.Write(d.Out); err != nil {
			return err
		}
		fmt.Fprintf(c.out, "wrote %s/index.html\n", d.Out)
	}
	if !d.Serve {
		return nil
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", d.Address)
	if err != nil {
		return fmt.Errorf("serve the pages: %w", err)
	}
	fmt.Fprintf(c.out, "http://%s/\n", l.Addr())
	srv := &http.Server{Handler: pages.Handler(), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the pages: %w", err)
	}
	return nil
}
