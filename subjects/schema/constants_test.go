package schema_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rollcall-io/rollcall/subjects/schema"
)

// constantsOf finds the string constants of some packages by their type, from the
// source: a new one then cannot be forgotten. Reasons have no type, but a common prefix.
func constantsOf(t *testing.T, dirs ...string) map[string][]string {
	t.Helper()
	constants := make(map[string][]string)
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, e.Name()), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if spec, ok := n.(*ast.ValueSpec); ok {
					collect(constants, spec)
				}
				return true
			})
		}
	}
	return constants
}

func collect(constants map[string][]string, spec *ast.ValueSpec) {
	name := ""
	if strings.HasPrefix(spec.Names[0].Name, "Reason") {
		name = "Reason"
	}
	switch typ := spec.Type.(type) {
	case *ast.Ident:
		name = typ.Name
	case *ast.SelectorExpr:
		name = typ.Sel.Name
	}
	for _, value := range spec.Values {
		if literal, ok := value.(*ast.BasicLit); ok && literal.Kind == token.STRING && name != "" {
			text, err := strconv.Unquote(literal.Value)
			if err != nil {
				panic(err) // it was parsed
			}
			constants[name] = append(constants[name], text)
		}
	}
}

// keys lists the names in an object of a schema.
func keys(t *testing.T, file, name string) []string {
	t.Helper()
	data, err := schema.FS.ReadFile(file + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var document map[string]json.RawMessage
	var object map[string]json.RawMessage
	if err := json.Unmarshal(data, &document); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(document[name], &object); err != nil {
		t.Fatal(err)
	}
	return slices.Collect(maps.Keys(object))
}

func sameSet(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return len(a) > 0 && slices.Equal(a, b)
}
