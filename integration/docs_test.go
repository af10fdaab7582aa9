package integration

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sluice/integration/harness"
)

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A promise whose test is gone is no promise.
func TestEveryPromiseNamesTestsThatExist(t *testing.T) {
	declared := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(t `)
	err := filepath.WalkDir(harness.Root(), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != "." {
			return fs.SkipDir
		}
		if err == nil && strings.HasSuffix(path, "_test.go") {
			for _, m := range function.FindAllStringSubmatch(read(t, path), -1) {
				declared[m[1]] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(read(t, filepath.Join(harness.Root(), "docs", "guarantees.md")), -1)
	if len(named) < 30 {
		t.Errorf("docs/guarantees.md names %d tests; it has lost some", len(named))
	}
	for _, m := range named {
		if !declared[m[1]] {
			t.Errorf("docs/guarantees.md names %s, which is no test", m[1])
		}
	}
}

func TestEveryLinkInTheDocumentsLeadsSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#: ]+)(#[^)]*)?\)`)
	root := harness.Root()
	var documents []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/adr/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, found...)
	}
	if len(documents) < 10 {
		t.Fatalf("only %d documents found", len(documents))
	}
	for _, document := range documents {
		for _, m := range link.FindAllStringSubmatch(read(t, document), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(document), m[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", filepath.Base(document), m[1])
			}
		}
	}
}
