// Package real starts the real Apache Kafka and PostgreSQL that tests run on,
// in Docker or as processes of this machine, and breaks them as crash tests
// need it: pause, kill -9, and start again on the same port and the same data.
//
// Both servers keep their default durability (fsync and all): a promise about
// crashes that was tested without it would be worth nothing. Only sizes differ.
package real

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// Kind says what a server runs on.
type Kind string

const (
	// Docker is a container of the official image, or of the stand-in for it.
	Docker Kind = "docker"
	// Native is a process of this machine.
	Native Kind = "native"
	// Environment is a server that was already there and whose address was given.
	Environment Kind = "environment"
)

// KindVariable forces one kind of server; `make test SLUICE_TEST_PARTS=native` does too.
const KindVariable = "SLUICE_TEST_PARTS"

// attempt is one way to get a server. prepare is nil or says why it cannot be.
type attempt struct {
	kind    Kind
	prepare func(context.Context) error
}

// choose returns the first kind that is possible: the wanted one, else the one
// that the environment forces, else the first of all.
func choose(ctx context.Context, server string, wanted Kind, attempts ...attempt) (Kind, error) {
	if wanted == "" {
		wanted = Kind(os.Getenv(KindVariable))
	}
	if wanted != "" && wanted != Docker && wanted != Native {
		return "", fmt.Errorf("%s=%s: it must be docker or native", KindVariable, wanted)
	}
	var problems []error
	for _, a := range attempts {
		if wanted != "" && wanted != a.kind {
			continue
		}
		err := a.prepare(ctx)
		if err == nil {
			return a.kind, nil
		}
		problems = append(problems, fmt.Errorf("%s: %w", a.kind, err))
	}
	return "", fmt.Errorf("%s can not be started on this machine:\n%w", server, errors.Join(problems...))
}
