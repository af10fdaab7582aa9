package main

import (
	"fmt"
	"strings"

	"github.com/caarlos0/env/v11"

	"sluice/pkg/daemon"
)

// roleHelp teaches a role: what it does, one example, and every setting with its
// default, read from its structs themselves.
func roleHelp[T any](what, example string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nExample:\n  %s\n\nSettings, with their defaults:\n", what, example)
	for _, line := range append(settingLines[T](), settingLines[daemon.Config]()...) {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	b.WriteString("\nIt waits for what it needs and says for what. SIGTERM drains it.")
	return b.String()
}

func settingLines[T any]() (lines []string) {
	params, err := env.GetFieldParams(new(T))
	if err != nil {
		return []string{err.Error()}
	}
	for _, p := range params {
		value := p.DefaultValue
		switch {
		case p.Key == "":
			continue
		case p.Required:
			value = "(required)"
		case value == "":
			value = "(none)"
		}
		lines = append(lines, fmt.Sprintf("%-32s %s", p.Key, value))
	}
	return lines
}
