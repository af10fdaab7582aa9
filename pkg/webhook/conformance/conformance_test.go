package conformance

import (
	"os"
	"path/filepath"
	"testing"
)

func TestEveryVectorAndFixturePasses(t *testing.T) {
	files, err := filepath.Glob("../testdata/*/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		results, err := Run(data)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, r := range results {
			t.Run(r.Provider+"/"+r.Name, func(t *testing.T) {
				if r.Skipped {
					t.Error("the provider is not built in")
				}
				if r.Err != nil {
					t.Error(r.Err)
				}
			})
		}
	}
}

func TestADifferenceIsReported(t *testing.T) {
	for name, file := range map[string]string{
		"a header twice": `[{"provider":"github","secret":"s3cr3t","headers":{"X-Hub-Signature-256":["sha256=0","sha256=1"]},"body_base64":"","expect":"valid"}]`,
		"a verdict":      `[{"provider":"github","secret":"s3cr3t","headers":{},"body_base64":"","expect":"valid"}]`,
		"a reading":      `[{"provider":"stripe","body":{"id":"e","type":"t"},"expect":{"event_id":"f"}}]`,
		"a null":         `[{"provider":"stripe","body":{"id":"e","type":"t"},"expect":{"event_id":null}}]`,
		"a time":         `[{"provider":"stripe","body":{"id":"e","type":"t","created":1},"expect":{"occurred_at":"1970-01-01T00:00:02Z"}}]`,
	} {
		r, err := Run([]byte(file))
		if err != nil || len(r) != 1 || r[0].Err == nil {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	r, err := Run([]byte(`[{"provider":"unheard-of","expect":[]}]`))
	if err != nil || len(r) != 1 || !r[0].Skipped {
		t.Errorf("%+v, %v", r, err)
	}
}
