package pages

import (
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sluice/pkg/contract"
	"sluice/schemas"
)

func all(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := rendered()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestThePagesShowEverythingThatTheContractHas(t *testing.T) {
	files := all(t)
	c, err := contract.Read(schemas.FS)
	if err != nil {
		t.Fatal(err)
	}
	shows := func(page string, texts ...string) {
		t.Helper()
		shown := strings.ReplaceAll(string(files[page]), "<wbr />", "")
		for _, text := range texts {
			if !strings.Contains(shown, strings.NewReplacer("&", "&amp;", "'", "&#39;", `"`, "&#34;", "<", "&lt;", ">", "&gt;", "+", "&#43;").Replace(text)) {
				t.Errorf("%s does not show %q", page, text)
			}
		}
	}
	for _, topic := range c.Topics {
		shows("index.html", topic.Address, topic.Title)
		shows("topics.html", topic.Address, topic.Delivery.Guarantee, topic.Delivery.Isolation)
		shows("topics.html", topic.Delivery.Exceptions...)
		for _, m := range topic.Messages {
			shows("topics.html", m.Title, m.Key.Description, m.ContentType)
			for _, f := range c.Fields(m.Headers) {
				shows("topics.html", f.Path, f.Description)
			}
		}
	}
	shows("topics.html", "2592000000 (30 days)", "1310720 (1280 KiB)")
	for _, o := range c.Operations {
		shows("index.html", o.Name())
		shows("http.html", o.Name(), o.Summary)
		for _, p := range o.Parameters {
			shows("http.html", p.Name, p.Description)
		}
		for _, a := range o.Answers {
			shows("http.html", a.Status, a.Description)
			for _, h := range a.Headers {
				shows("http.html", h.Name)
			}
		}
	}
	for name := range c.Schemas {
		shows("index.html", name)
		page := "schemas/" + name + ".html"
		for _, f := range c.Fields(name) {
			shows(page, f.Path, f.Description, f.Rule, f.Type)
		}
		for _, kind := range []string{"good", "bad"} {
			examples, err := schemas.FS.ReadDir("examples/" + name + "/" + kind)
			if err != nil || len(examples) == 0 {
				t.Fatal(name, err)
			}
			for _, e := range examples {
				shows(page, e.Name())
			}
		}
	}
}

var (
	link = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	id   = regexp.MustCompile(`\sid="([^"]*)"`)
)

func TestEveryLinkLeadsToAPageAndAPlaceInIt(t *testing.T) {
	files := all(t)
	ids := map[string][]string{}
	for name, content := range files {
		for _, m := range id.FindAllStringSubmatch(string(content), -1) {
			if slices.Contains(ids[name], m[1]) {
				t.Errorf("%s has two places %s", name, m[1])
			}
			ids[name] = append(ids[name], m[1])
		}
	}
	links := 0
	for name, content := range files {
		if path.Ext(name) != ".html" {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(string(content), -1) {
			links++
			to, place, within := strings.Cut(m[1], "#")
			target := name
			if to != "" {
				target = path.Join(path.Dir(name), to)
			}
			if files[target] == nil || within && !slices.Contains(ids[target], place) {
				t.Errorf("%s links to %q, which is not there", name, m[1])
			}
		}
	}
	if links < 100 {
		t.Errorf("only %d links were found", links)
	}
}

// They work without a network, and in a browser that runs no script.
func TestThePagesNeedNothingFromElsewhere(t *testing.T) {
	for name, content := range all(t) {
		if path.Ext(name) != ".html" && path.Ext(name) != ".css" {
			continue
		}
		for _, foreign := range []string{"<script", "<iframe", "<img", "<style", " style=", "@import", "url(", "href=\"http:", "href=\"https:", "href=\"//", " onclick"} {
			if strings.Contains(string(content), foreign) {
				t.Errorf("%s holds %s", name, foreign)
			}
		}
	}
	css := string(all(t)["style.css"])
	for _, part := range []string{"prefers-color-scheme: dark", "@media print"} {
		if !strings.Contains(css, part) {
			t.Errorf("the style has no part for %s", part)
		}
	}
}

func TestThePagesAreWellFormed(t *testing.T) {
	for name, content := range all(t) {
		if path.Ext(name) != ".html" {
			continue
		}
		d := xml.NewDecoder(strings.NewReader(string(content)))
		headings := 0
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
				break
			}
			if e, ok := token.(xml.StartElement); ok && e.Name.Local == "h1" {
				headings++
			}
		}
		if headings != 1 {
			t.Errorf("%s has %d headings of the first order", name, headings)
		}
	}
}

// What a document says is text, whatever it looks like.
func TestTextsOfDocumentsAreNotMarkup(t *testing.T) {
	r := renderer{&contract.Contract{Schemas: map[string]contract.Schema{}}, map[string][]byte{}}
	s := contract.Schema{Name: "x", Document: map[string]any{"title": "<b>&", "description": "<script>alert(1)</script>"}}
	data, err := r.schema(s)
	if err == nil {
		err = r.page("x.html", "schema", "..", data)
	}
	if page := string(r.files["x.html"]); err != nil || strings.Contains(page, "<script") || strings.Contains(page, "<b>") || !strings.Contains(page, "&lt;b&gt;&amp;") {
		t.Errorf("%v: %s", err, page)
	}
}

func TestTheHandlerServesThePagesUnderAnyPath(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("/docs/", http.StripPrefix("/docs", Handler()))
	for _, c := range []struct {
		method, path string
		status       int
		contentType  string
	}{
		{"GET", "/docs/", 200, "text/html; charset=utf-8"},
		{"HEAD", "/docs/index.html", 200, "text/html; charset=utf-8"},
		{"GET", "/docs/schemas/order.status_changed.v1.html", 200, "text/html; charset=utf-8"},
		{"GET", "/docs/style.css", 200, "text/css; charset=utf-8"},
		{"GET", "/docs/files/asyncapi.yaml", 200, "text/plain; charset=utf-8"},
		{"GET", "/docs/files/problem.v1.schema.json", 200, "application/json"},
		{"GET", "/docs/files", 404, ""},
		{"GET", "/docs/templates/layout.html", 404, ""},
		{"GET", "/docs/..%2f..%2fetc/passwd", 404, ""},
		{"POST", "/docs/", 405, ""},
	} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(c.method, c.path, nil))
		h := w.Header()
		if w.Code != c.status || c.contentType != "" && (h.Get("Content-Type") != c.contentType || !strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") || h.Get("X-Content-Type-Options") != "nosniff") {
			t.Errorf("%s %s: %d %v", c.method, c.path, w.Code, h)
		}
	}
}

func TestThePagesAreWrittenAsTheyAreServed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "docs")
	if err := Write(dir); err != nil {
		t.Fatal(err)
	}
	files := all(t)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != string(files[name]) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestThePagesAreSmallEnoughToKeepInMemory(t *testing.T) {
	sum := 0
	for _, content := range all(t) {
		sum += len(content)
	}
	if sum > 2<<20 {
		t.Errorf("they have %d KiB", sum>>10)
	}
	t.Logf("%d files, %d KiB", len(all(t)), sum>>10)
}
