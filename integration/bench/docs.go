package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"text/template"
	"time"
)

//go:embed benchmarks.md.tmpl
var page string

var pageTemplate = template.Must(template.New("benchmarks.md").Parse(page))

// writeDocs writes docs/benchmarks.md and its plot below root.
func writeDocs(root string, rows []row, machine []string, at time.Time) error {
	var b bytes.Buffer
	err := pageTemplate.Execute(&b, map[string]any{"Day": at.Format(time.DateOnly), "Machine": machine, "Table": markdown(rows)})
	if err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	for name, text := range map[string][]byte{"benchmarks.md": b.Bytes(), "benchmarks.svg": plot(rows)} {
		if err := os.WriteFile(filepath.Join(root, "docs", name), text, 0o644); err != nil {
			return fmt.Errorf("write docs: %w", err)
		}
	}
	return nil
}
