package endpoint

import (
	"fmt"
	"regexp"
	"strings"

	"sluice/pkg/webhook"
)

const (
	envPrefix  = "env:"
	filePrefix = "file:"
)

// reference names where a secret's value is.
type reference string

// UnmarshalYAML takes `env:NAME`, and `env: NAME` too.
func (r *reference) UnmarshalYAML(unmarshal func(any) error) error {
	return colonText((*string)(r), unmarshal)
}

// colonText reads text with a colon in it: in one-line maps `a:b` and `a: b` are the
// same to the YAML parser.
func colonText(to *string, unmarshal func(any) error) error {
	var one map[string]string
	if unmarshal(&one) == nil && len(one) == 1 {
		for before, after := range one {
			*to = before + ":" + after
		}
		return nil
	}
	return unmarshal(to)
}

// The forms are env:NAME, file:/path. Anything else may be a secret's value and
// is never repeated in an error.
var referenceForm = regexp.MustCompile(`^(env:[A-Za-z_][A-Za-z0-9_]*|file:.+)$`)

func (r reference) valid() bool { return referenceForm.MatchString(string(r)) }

// secret fetches what a reference names. The secret's name is the reference.
func secret(ref string, lookupEnv func(string) (string, bool), readFile func(string) ([]byte, error)) (webhook.Secret, error) {
	if name, ok := strings.CutPrefix(ref, envPrefix); ok {
		value, set := lookupEnv(name)
		if !set {
			return webhook.Secret{}, fmt.Errorf("the environment variable %s is not set: set it to the provider's signing secret", name)
		}
		return webhook.NewSecret(ref, value)
	}
	path := strings.TrimPrefix(ref, filePrefix)
	value, err := readFile(path)
	if err != nil {
		return webhook.Secret{}, fmt.Errorf("read secret: %w", err)
	}
	return webhook.NewSecret(ref, string(value))
}
