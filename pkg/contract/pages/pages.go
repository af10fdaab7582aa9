// Package pages renders the published contract as HTML pages that need nothing else:
// no script, nothing from elsewhere. They can be kept as files, printed, or served
// under any path.
package pages

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"mime"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"sluice/pkg/contract"
	"sluice/schemas"
)

//go:embed templates
var templates embed.FS

// rendered is the contract of this program.
var rendered = sync.OnceValues(func() (map[string][]byte, error) { return Render(schemas.FS) })

// Render makes the pages of a contract: files by their path, index.html among them.
// Links are relative.
func Render(dir fs.FS) (map[string][]byte, error) {
	c, err := contract.Read(dir)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	if files["style.css"], err = templates.ReadFile("templates/style.css"); err != nil {
		return nil, err
	}
	// What the pages are made of lies beside them.
	err = fs.WalkDir(dir, ".", func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files["files/"+at], err = fs.ReadFile(dir, at)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the contract's files: %w", err)
	}
	r := renderer{c, files}
	common := map[string]any{"Contract": c, "Schemas": slices.Sorted(maps.Keys(c.Schemas)), "Protocol": string(files["files/"+schemas.PaymeClick])}
	for _, name := range []string{"index", "topics", "http", "payme-click"} {
		if err := r.page(name+".html", name, ".", common); err != nil {
			return nil, err
		}
	}
	for name, s := range c.Schemas {
		data, err := r.schema(s)
		if err != nil {
			return nil, err
		}
		if err := r.page("schemas/"+name+".html", "schema", "..", data); err != nil {
			return nil, err
		}
	}
	return files, nil
}

type renderer struct {
	contract *contract.Contract
	files    map[string][]byte
}

// example is one example of a schema; At and Keyword say why a bad one is bad.
type example struct{ Name, File, Text, At, Keyword string }

func (r renderer) schema(s contract.Schema) (map[string]any, error) {
	reasons := map[string]struct{ At, Keyword string }{}
	folder := "files/examples/" + s.Name + "/"
	if text, ok := r.files[folder+"reasons.json"]; ok {
		if err := json.Unmarshal(text, &reasons); err != nil {
			return nil, fmt.Errorf("read the reasons of %s: %w", s.Name, err)
		}
	}
	var good, bad []example
	for _, file := range slices.Sorted(maps.Keys(r.files)) {
		kind, name := path.Split(strings.TrimPrefix(file, folder))
		words := strings.ReplaceAll(strings.TrimSuffix(name, ".json"), "_", " ")
		switch {
		case !strings.HasPrefix(file, folder):
		case kind == "good/":
			good = append(good, example{Name: words, File: file, Text: string(r.files[file])})
		case kind == "bad/":
			bad = append(bad, example{Name: words, File: file, At: reasons[name].At, Keyword: reasons[name].Keyword})
		}
	}
	return map[string]any{"Contract": r.contract, "Schema": s, "Title": s.Document["title"], "About": s.Document["description"],
		"Fields": r.contract.Fields(s.Name), "Good": good, "Bad": bad, "Text": string(s.Text), "Used": r.users(s.Name)}, nil
}

// use is where a schema is used.
type use struct{ Name, Link string }

func (r renderer) users(schema string) (list []use) {
	for _, t := range r.contract.Topics {
		for _, m := range t.Messages {
			if m.Headers == schema {
				list = append(list, use{t.Address + ", headers", "topics.html#" + anchor(t.Address)})
			}
			if m.Payload == schema {
				list = append(list, use{t.Address + ", value", "topics.html#" + anchor(t.Address)})
			}
		}
	}
	for _, o := range r.contract.Operations {
		link := "http.html#" + anchor(o.Name())
		if o.Request != nil && slices.Contains(slices.Collect(maps.Values(o.Request.Types)), schema) {
			list = append(list, use{o.Name() + ", request", link})
		}
		for _, a := range o.Answers {
			if slices.Contains(slices.Collect(maps.Values(a.Body.Types)), schema) {
				list = append(list, use{o.Name() + ", answer " + a.Status, link})
			}
		}
	}
	return list
}

func (r renderer) page(file, name, root string, data map[string]any) error {
	t, err := template.New("layout.html").Funcs(functions).ParseFS(templates, "templates/layout.html", "templates/"+name+".html")
	if err != nil {
		return err
	}
	data = maps.Clone(data)
	data["Root"], data["Page"] = root, name
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return fmt.Errorf("render %s: %w", file, err)
	}
	r.files[file] = b.Bytes()
	return nil
}

var functions = template.FuncMap{
	"anchor":     anchor,
	"paragraphs": paragraphs,
	"setting":    setting,
	"parts":      func(path string) []string { return strings.SplitAfter(path, ".") }, // a long path breaks between its names
	"fields":     func(c *contract.Contract, schema string) []contract.Field { return c.Fields(schema) },
	"dict": func(pairs ...any) map[string]any {
		m := map[string]any{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i].(string)] = pairs[i+1]
		}
		return m
	},
}

// anchor is a name as the id of a place in a page.
func anchor(name string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, name), "-")
}

// paragraphs are a text's, each on one line.
func paragraphs(text any) (out []string) {
	s, _ := text.(string)
	for p := range strings.SplitSeq(s, "\n\n") {
		if p = strings.Join(strings.Fields(p), " "); p != "" {
			out = append(out, p)
		}
	}
	return out
}

// setting is a topic setting's value for people.
func setting(name, value string) string {
	var n int64
	if _, err := fmt.Sscan(value, &n); err != nil {
		return value
	}
	const day = 24 * 60 * 60 * 1000
	switch {
	case strings.HasSuffix(name, ".ms") && n > 0 && n%day == 0:
		return fmt.Sprintf("%d (%d days)", n, n/day)
	case strings.HasSuffix(name, ".bytes") && n > 0 && n%(1<<10) == 0:
		return fmt.Sprintf("%d (%d KiB)", n, n>>10)
	}
	return value
}

// Write puts the pages of this program's contract into a directory, which it makes.
func Write(dir string) error {
	files, err := rendered()
	if err != nil {
		return err
	}
	for name, content := range files {
		at := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return fmt.Errorf("write the contract's pages: %w", err)
		}
		if err := os.WriteFile(at, content, 0o644); err != nil {
			return fmt.Errorf("write the contract's pages: %w", err)
		}
	}
	return nil
}

// Handler serves the pages of this program's contract; its root is their index. Mount
// it under a path that ends with a slash, which http.StripPrefix takes away but for
// the slash. They are rendered when the first is asked for.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "GET only", http.StatusMethodNotAllowed)
			return
		}
		files, err := rendered()
		if err != nil {
			http.Error(w, "the contract cannot be rendered", http.StatusInternalServerError)
			return
		}
		name := strings.TrimPrefix(r.URL.Path, "/")
		if name == "" {
			name = "index.html"
		}
		content, ok := files[name]
		if !ok {
			http.NotFound(w, r)
			return
		}
		h := w.Header()
		h.Set("Content-Type", typeOf(name))
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'")
		h.Set("Cache-Control", "no-cache")
		_, _ = w.Write(content)
	})
}

func typeOf(name string) string {
	switch path.Ext(name) {
	case ".html", ".css", ".json":
		return mime.TypeByExtension(path.Ext(name))
	}
	return "text/plain; charset=utf-8"
}
