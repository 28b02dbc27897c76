package ledger_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rollcall-io/rollcall/ledger"
)

// A rule that is missing from the list could not be asked for.
func TestRulesAreAll(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "ledger.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var declared []string
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, is := n.(*ast.ValueSpec); is && strings.HasPrefix(spec.Names[0].Name, "Rule") {
			name, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Error(err)
			}
			declared = append(declared, name)
		}
		return true
	})
	if got := ledger.Rules(); !slices.Equal(got, declared) {
		t.Errorf("%q, declared %q", got, declared)
	}
}
