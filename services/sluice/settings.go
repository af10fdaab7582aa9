package main

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"sluice/pkg/endpoint"
	"sluice/pkg/event"
)

// environment is what settings are read from: the process's own, or what `sluice
// dev` makes up.
type environment map[string]string

func processEnvironment() environment { return env.ToMap(os.Environ()) }

func (e environment) lookup(name string) (string, bool) {
	v, ok := e[name]
	return v, ok
}

// read fills one struct of settings; the error names every problem.
func read[T any](e environment) (T, error) {
	v, err := env.ParseAsWithOptions[T](env.Options{Environment: e})
	var all env.AggregateError
	if !errors.As(err, &all) {
		return v, err
	}
	var problems []error
	for _, err := range all.Errors {
		problems = append(problems, errors.New(plainly(err, reflect.TypeFor[T]())))
	}
	return v, errors.Join(problems...)
}

// plainly says in plain words what the library says about one setting of struct
// t, and never the setting's value.
func plainly(err error, t reflect.Type) string {
	var (
		notSet env.VarIsNotSetError
		empty  env.EmptyVarError
		parse  env.ParseError
	)
	switch {
	case errors.As(err, &notSet):
		return notSet.Key + " is not set"
	case errors.As(err, &empty):
		return empty.Key + " is empty"
	case errors.As(err, &parse):
		return fmt.Sprintf("%s cannot be read as %s", strings.Join(keys(t, parse.Name, parse.Type), " or "), kindOf(parse.Type))
	}
	return strings.TrimPrefix(err.Error(), "env: ")
}

// keys are the variables of the fields of struct t, at any depth, that have that
// name and type: the library names fields only.
func keys(t reflect.Type, name string, typ reflect.Type) (found []string) {
	for f := range t.Fields() {
		key, _, _ := strings.Cut(f.Tag.Get("env"), ",")
		switch {
		case key == "" && f.Type.Kind() == reflect.Struct:
			found = append(found, keys(f.Type, name, typ)...)
		case f.Name == name && f.Type == typ:
			found = append(found, key)
		}
	}
	return found
}

func kindOf(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "a duration like 500ms, 5s or 2m"
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64:
		return "a whole number"
	case t.Kind() == reflect.Bool:
		return "true or false"
	}
	return t.String()
}

// deployment is what all roles that know endpoints share.
type deployment struct {
	// Endpoints is the path of the endpoints file.
	Endpoints string `env:"SLUICE_ENDPOINTS" envDefault:"endpoints.yaml"`
	// Mode is live or test.
	Mode event.Mode `env:"SLUICE_MODE,required"`
}

// load reads the endpoints file and resolves its secrets.
func (d deployment) load(e environment) (endpoint.Set, error) {
	return endpoint.Load(d.Endpoints, d.Mode, e.lookup, os.ReadFile)
}

// readings reads the endpoints file for roles that verify nothing.
func (d deployment) readings() (endpoint.Set, error) {
	return endpoint.LoadWithoutSecrets(d.Endpoints, d.Mode, os.ReadFile)
}
