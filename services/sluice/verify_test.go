package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const testdata = "../../pkg/webhook/testdata/"

func verify(t *testing.T, args ...string) (lines []string, err error) {
	t.Helper()
	var out bytes.Buffer
	err = run(append([]string{"verify"}, args...), &out, io.Discard)
	return strings.Split(strings.TrimSpace(out.String()), "\n"), err
}

func TestVerifyCountsWhatPassedFailedAndWasSkipped(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mixed.json")
	err := os.WriteFile(file, []byte(`[
		{"name":"good","provider":"github","secret":"It's a Secret to Everybody","headers":{"X-Hub-Signature-256":"sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"},"body_base64":"SGVsbG8sIFdvcmxkIQ==","now":null,"expect":"valid"},
		{"name":"bad","provider":"github","secret":"s3cr3t","headers":{},"body_base64":"","now":null,"expect":"valid"},
		{"name":"other","provider":"unheard-of","body_base64":"","expect":"valid"}]`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := verify(t, "--vectors", file)
	if err == nil {
		t.Error("a failure is no error")
	}
	if len(lines) != 2 || !strings.Contains(lines[0], "github bad: verdict invalid (missing), expected valid") || lines[1] != "1 passed, 1 failed, 1 skipped" {
		t.Errorf("said:\n%s", strings.Join(lines, "\n"))
	}
}

func TestVerifyPassesTheShippedVectorsAndFixtures(t *testing.T) {
	glob := func(pattern string) []string {
		paths, _ := filepath.Glob(testdata + pattern)
		if len(paths) == 0 {
			t.Fatalf("no %s", pattern)
		}
		return paths
	}
	args := append(append(append([]string{"--vectors"}, glob("vectors/*.json")...), "--fixtures"), glob("fixtures/*.json")...)
	lines, err := verify(t, args...)
	if err != nil || len(lines) != 1 || !strings.HasSuffix(lines[0], " passed, 0 failed, 0 skipped") {
		t.Errorf("%v\n%s", err, strings.Join(lines, "\n"))
	}
}

func TestVerifyWithNothingToRunIsAnError(t *testing.T) {
	for _, args := range [][]string{nil, {"--vectors"}, {"--vectors", "--fixtures"}, {"--vectors", "no-such-file"}, {"--fixtures", "verify.go"}, {"stray"}} {
		if lines, err := verify(t, args...); err == nil {
			t.Errorf("%v passed: %v", args, lines)
		}
	}
}
