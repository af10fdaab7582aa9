package webhook

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// What a signature, a digest or a secret is called, and what makes one.
var (
	secretName = regexp.MustCompile(`(?i)(sig|signature|sum|digest|mac|given|password|token|secret)$`)
	makesOne   = regexp.MustCompile(`(?i)(sum|sum1|sum256|sum512|digest|hmac|encodetostring|appendencode)$`)
	// comparisons whose time depends on what they compare.
	early = []string{"bytes.Equal", "bytes.Compare", "bytes.HasPrefix", "bytes.HasSuffix", "bytes.EqualFold", "slices.Equal", "slices.Compare",
		"strings.Compare", "strings.EqualFold", "reflect.DeepEqual", "cmp.Compare", "slices.Contains", "slices.Index"}
)

// comparisons are the places in a file where a signature or a secret is compared
// otherwise than by hmac.Equal or subtle.
func comparisons(t *testing.T, name string, src any) (found []string) {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	report := func(n ast.Node, what string) {
		found = append(found, fmt.Sprintf("%s: %s", fset.Position(n.Pos()), what))
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			// Against a literal or nil nothing is told that the code does not say.
			if (n.Op == token.EQL || n.Op == token.NEQ) && !plainly(n.X) && !plainly(n.Y) && (isSecret(n.X) || isSecret(n.Y)) {
				report(n, n.Op.String())
			}
		case *ast.SwitchStmt:
			if n.Tag != nil && isSecret(n.Tag) {
				report(n, "switch")
			}
		case *ast.IndexExpr: // a map's look-up compares, too
			if isSecret(n.Index) {
				report(n, "index")
			}
		case *ast.CallExpr:
			if f := called(n.Fun); slices.Contains(early, f) && slices.ContainsFunc(n.Args, isSecret) && !slices.ContainsFunc(n.Args, plainly) {
				report(n, f)
			}
		}
		return true
	})
	return found
}

// constants are the names of the package's constants: what they hold is no secret.
var constants = sync.OnceValue(func() map[string]bool {
	names := map[string]bool{}
	files, _ := filepath.Glob("*.go")
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			continue // the test that parses it says so
		}
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
				for _, s := range g.Specs {
					for _, name := range s.(*ast.ValueSpec).Names {
						names[name.Name] = true
					}
				}
			}
		}
	}
	return names
})

// plainly: a literal, a constant, nil, or a conversion of one.
func plainly(e ast.Expr) bool {
	switch e := strip(e).(type) {
	case *ast.BasicLit:
		return true
	case *ast.Ident:
		return e.Name == "nil" || e.Name == "true" || e.Name == "false" || constants()[e.Name]
	}
	return false
}

func isSecret(e ast.Expr) bool {
	switch e := strip(e).(type) {
	case *ast.Ident:
		return secretName.MatchString(e.Name)
	case *ast.SelectorExpr:
		return e.Sel.Name == "value" && called(e.X) == "s" || secretName.MatchString(e.Sel.Name)
	case *ast.CallExpr:
		f := called(e.Fun)
		return makesOne.MatchString(f[strings.LastIndex(f, ".")+1:])
	}
	return false
}

// strip takes parentheses, slices, and conversions to text and bytes off.
func strip(e ast.Expr) ast.Expr {
	for {
		switch x := e.(type) {
		case *ast.ParenExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		case *ast.CallExpr:
			array, ok := x.Fun.(*ast.ArrayType)
			conversion := ok && array.Len == nil || called(x.Fun) == "string"
			if !conversion || len(x.Args) != 1 {
				return e
			}
			e = x.Args[0]
		default:
			return e
		}
	}
}

func called(f ast.Expr) string {
	switch f := f.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return called(f.X) + "." + f.Sel.Name
	}
	return ""
}

// Comparing a signature must take the same time wherever it differs.
func TestEverySignatureAndSecretIsComparedInConstantTime(t *testing.T) {
	// Not of a request: an endpoint's secret and what documentation prints.
	allowed := []string{"secret.go:"}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if name := e.Name(); strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			for _, f := range comparisons(t, name, nil) {
				if !slices.ContainsFunc(allowed, func(a string) bool { return strings.HasPrefix(f, a) }) {
					t.Error(f)
				}
			}
		}
	}
}

func TestAComparisonInVaryingTimeIsFound(t *testing.T) {
	for _, bad := range []string{
		"_ = signature == want", "_ = want != string(sum)", "_ = bytes.Equal(mac.Sum(nil), x)", "_ = hex.EncodeToString(x) == y", "_ = string(s.value) == text",
		"_ = subtleThing || bytes.HasPrefix(sum, x)", "switch given { case x: }", "_ = strings.EqualFold(digest, x)", "_ = known[string(sig)]", "_ = slices.Contains(all, token)",
		"_ = (signature[:8]) == x", "_ = sha256.Sum256(x) == y",
	} {
		if found := comparisons(t, "x.go", "package x\nfunc f() {"+bad+"}"); len(found) != 1 {
			t.Errorf("%s: %v", bad, found)
		}
	}
	for _, good := range []string{
		`_ = signature == ""`, "_ = sum != nil", "_ = hmac.Equal(sum, x)", "_ = subtle.ConstantTimeCompare(s.value, given) == 1", "_ = len(sig) == 32", `_ = strings.HasPrefix(string(s.value), "sk_")`,
		`_ = bytes.HasPrefix(s.value, []byte("whsk_"))`,
	} {
		if found := comparisons(t, "x.go", "package x\nfunc f() {"+good+"}"); len(found) != 0 {
			t.Errorf("%s: %v", good, found)
		}
	}
}
