package endpoint

import (
	"fmt"
	"strings"

	"sluice/pkg/declare"
	"sluice/pkg/webhook"
)

// reference names where a secret's value is.
type reference = declare.Reference

// secret fetches what a reference names. The secret's name is the reference.
func secret(ref string, lookupEnv func(string) (string, bool), readFile func(string) ([]byte, error)) (webhook.Secret, error) {
	value, err := reference(ref).Value("the provider's signing secret", lookupEnv, readFile)
	if err != nil {
		return webhook.Secret{}, unread("secret", ref, err)
	}
	return webhook.NewSecret(ref, value)
}

// unread says what a file was read for.
func unread(what, ref string, err error) error {
	if strings.HasPrefix(ref, "file:") {
		return fmt.Errorf("read %s: %w", what, err)
	}
	return err
}
