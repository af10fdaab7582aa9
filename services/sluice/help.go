package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"sluice/pkg/daemon"
)

// roleHelp teaches a role: what it does, one example, and every setting with its
// default and meaning, read from its structs themselves.
func roleHelp[T any](what, example string, unread ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nExample:\n  %s\n\nSettings, with their defaults:\n", what, example)
	for _, line := range append(settingLines[T](unread...), settingLines[daemon.Config]()...) {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	b.WriteString("\nIt waits for what it needs and says for what. SIGTERM drains it.")
	return b.String()
}

// settingLines is a line for each setting of T: its variable, default and meaning.
// unread are those that T has for others.
func settingLines[T any](unread ...string) (lines []string) {
	for _, s := range settingsOf(reflect.TypeFor[T]()) {
		if slices.Contains(unread, s.key) {
			continue
		}
		value := s.value
		switch {
		case s.required:
			value = "(required)"
		case value == "":
			value = "(none)"
		}
		lines = append(lines, fmt.Sprintf("%-33s %-14s  %s", s.key, value, s.help))
	}
	return lines
}
