// Package declare is what the files have in common in which a deployment declares
// its parts: references to secrets, and the line on which something is wrong.
package declare

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Reference names where a secret's value is: env:NAME or file:/path.
type Reference string

// The forms of a reference. Anything else may be a secret's value and is never
// repeated in an error.
const (
	envPrefix  = "env:"
	filePrefix = "file:"
)

var referenceForm = regexp.MustCompile(`^(env:[A-Za-z_][A-Za-z0-9_]*|file:.+)$`)

// Valid says whether it has the form of a reference.
func (r Reference) Valid() bool { return referenceForm.MatchString(string(r)) }

// UnmarshalYAML takes `env:NAME`, and `env: NAME` too.
func (r *Reference) UnmarshalYAML(unmarshal func(any) error) error {
	return ColonText((*string)(r), unmarshal)
}

// Value fetches what a valid reference names. what says in an error what an
// environment variable that is not set must hold.
func (r Reference) Value(what string, lookupEnv func(string) (string, bool), readFile func(string) ([]byte, error)) (string, error) {
	if name, ok := strings.CutPrefix(string(r), envPrefix); ok {
		value, set := lookupEnv(name)
		if !set {
			return "", fmt.Errorf("the environment variable %s is not set: set it to %s", name, what)
		}
		return value, nil
	}
	value, err := readFile(strings.TrimPrefix(string(r), filePrefix))
	return string(value), err
}

// ColonText reads text with a colon in it: in one-line maps `a:b` and `a: b` are the
// same to the YAML parser.
func ColonText(to *string, unmarshal func(any) error) error {
	var one map[string]string
	if unmarshal(&one) == nil && len(one) == 1 {
		for before, after := range one {
			*to = before + ":" + after
		}
		return nil
	}
	return unmarshal(to)
}

// Read reads the text of the file at path into file, strictly. The error says on
// which line, and never shows the source's lines: somebody may have put a secret there.
func Read(path string, text []byte, file any, more ...yaml.DecodeOption) error {
	if err := yaml.UnmarshalWithOptions(text, file, append(more, yaml.Strict())...); err != nil {
		return errors.New(place.ReplaceAllString(yaml.FormatError(err, false, false), path+":$1: "))
	}
	// Of several documents only the first was read: nobody means that.
	f, err := parser.ParseBytes(text, 0)
	if err != nil {
		return fmt.Errorf("%s: it cannot be read again", path)
	}
	for i, doc := range f.Docs {
		if i > 0 && doc.Body != nil && doc.Start != nil {
			return fmt.Errorf("%s:%d: a second document begins here (---): write everything in one", path, doc.Start.Position.Line)
		}
	}
	return nil
}

// place is how the YAML package says where.
var place = regexp.MustCompile(`^\[(\d+):\d+\] `)

// Lines says on which line of the file each entry of a list begins; 0 if it is not
// found.
func Lines(text []byte, list string) func(i int) int {
	f, err := parser.ParseBytes(text, 0)
	return func(i int) int {
		if err != nil {
			return 0
		}
		p, err := yaml.PathString(fmt.Sprintf("$.%s[%d]", list, i))
		if err != nil {
			return 0
		}
		n, err := p.FilterFile(f)
		if err != nil {
			return 0
		}
		if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 {
			n = m.Values[0].Key
		}
		return n.GetToken().Position.Line
	}
}

// Each takes joined errors apart, so that every problem has its own line.
func Each(err error) (out []error) {
	var many interface{ Unwrap() []error }
	if !errors.As(err, &many) {
		if err != nil {
			out = append(out, err)
		}
		return out
	}
	for _, err := range many.Unwrap() {
		out = append(out, Each(err)...)
	}
	return out
}
