package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheContractsPagesAreWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "site")
	var out bytes.Buffer
	if err := run([]string{"docs", "--out", dir}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if page, err := os.ReadFile(filepath.Join(dir, "index.html")); err != nil || !bytes.Contains(page, []byte("orders.status.v1")) {
		t.Errorf("%v: %s", err, page)
	}
	if want := "wrote " + dir + "/index.html\n"; out.String() != want {
		t.Errorf("said %q, want %q", out.String(), want)
	}
}

func TestDocsWithoutAnythingToDoIsAskedWrongly(t *testing.T) {
	if err := run([]string{"docs"}, io.Discard, io.Discard); exitCode(err) != 2 {
		t.Errorf("got %v", err)
	}
}

func TestTheContractsPagesAreServedUntilTheCommandEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	said, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- docsCmd{Serve: true, Address: "127.0.0.1:0"}.Run(ctx, &console{out, io.Discard}) }()
	line := make([]byte, 200)
	n, err := said.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.Get(strings.TrimSpace(string(line[:n])) + "topics.html")
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("answered %d", res.StatusCode)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
