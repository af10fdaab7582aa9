package main

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"sluice/pkg/endpoint"
	"sluice/pkg/event"
	"sluice/pkg/postgres"
	"sluice/pkg/webhook"
)

// environment is what settings are read from: the process's own, or what `sluice
// dev` makes up.
type environment map[string]string

func processEnvironment() environment { return env.ToMap(os.Environ()) }

func (e environment) lookup(name string) (string, bool) {
	v, ok := e[name]
	return v, ok
}

// read fills one struct of settings. The error names every problem, and what it
// names has its default, so that the rest can still be checked.
func read[T any](e environment) (T, error) {
	v, err := env.ParseAsWithOptions[T](env.Options{Environment: e})
	var all env.AggregateError
	if !errors.As(err, &all) {
		return v, err
	}
	var problems []error
	sound := maps.Clone(e)
	for _, err := range all.Errors {
		problems = append(problems, errors.New(plainly(err, reflect.TypeFor[T]())))
		if parse := (env.ParseError{}); errors.As(err, &parse) {
			for _, key := range keys(reflect.TypeFor[T](), parse.Name, parse.Type) {
				delete(sound, key)
			}
		}
	}
	v, _ = env.ParseAsWithOptions[T](env.Options{Environment: sound})
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

// setting is one variable that a struct of settings reads.
type setting struct {
	key, value, help string
	required         bool
	field            reflect.StructField
}

// settingsOf are the settings of struct t, at any depth.
func settingsOf(t reflect.Type) (found []setting) {
	for f := range t.Fields() {
		key, options, _ := strings.Cut(f.Tag.Get("env"), ",")
		switch {
		case key != "":
			found = append(found, setting{key, f.Tag.Get("envDefault"), f.Tag.Get("help"), strings.Contains(options, "required"), f})
		case f.Type.Kind() == reflect.Struct:
			found = append(found, settingsOf(f.Type)...)
		}
	}
	return found
}

// keys are the variables of the fields of struct t that have that name and type:
// the library names fields only.
func keys(t reflect.Type, name string, typ reflect.Type) (found []string) {
	for _, s := range settingsOf(t) {
		if s.field.Name == name && s.field.Type == typ {
			found = append(found, s.key)
		}
	}
	return found
}

func kindOf(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "a duration like 500ms, 5s or 2m"
	case t == reflect.TypeFor[map[string]time.Duration]():
		return "pairs like awaiting_order:1h,over_refund:0s"
	case t == reflect.TypeFor[slog.Level]():
		return "debug, info, warn or error"
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
	Endpoints string `env:"SLUICE_ENDPOINTS" envDefault:"endpoints.yaml" help:"the endpoints file"`
	// Mode is live or test.
	Mode event.Mode `env:"SLUICE_MODE,required,notEmpty" help:"live or test: which of the providers' worlds this is"`
}

// load reads the endpoints file and resolves its secrets.
func (d deployment) load(e environment) (endpoint.Set, error) {
	return endpoint.Load(d.Endpoints, d.Mode, e.lookup, os.ReadFile)
}

// loadFor is load with the secrets of only those providers that a role verifies.
func (d deployment) loadFor(e environment, verified func(webhook.Provider) bool) (endpoint.Set, error) {
	return endpoint.LoadFor(verified, d.Endpoints, d.Mode, e.lookup, os.ReadFile)
}

// readings reads the endpoints file for roles that verify nothing.
func (d deployment) readings() (endpoint.Set, error) {
	return endpoint.LoadWithoutSecrets(d.Endpoints, d.Mode, os.ReadFile)
}

// unsaid is a problem of the endpoints file, or nil if reading the settings has
// told of it.
func (d deployment) unsaid(err error) error {
	if d.Mode == "" && errors.Is(err, endpoint.ErrNoMode) {
		return nil
	}
	return err
}

// database is what a role needs of it that holds no events and knows no repeats.
type database struct {
	URL string `env:"DATABASE_URL,required,notEmpty" json:"-" help:"postgres:// URL or keyword string"`
}

func (d database) config() postgres.Config { return postgres.Config{URL: d.URL} }
