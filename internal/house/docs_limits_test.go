package house

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// limitRow is a row of a table of limits: a name, a value, and the file it is in.
var limitRow = regexp.MustCompile("(?m)^\\| `(\\w+)` \\| ([\\d,]+(?: \\w+)?) \\| `([\\w./-]+\\.go)` \\|")

// units are what a value in a document may be given in. Durations are nanoseconds.
var units = map[string]int64{
	"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
	"ms": 1e6, "s": 1e9, "min": 60e9, "h": 3600e9,
}

// documented returns the number that a value in a document stands for.
func documented(text string) (int64, error) {
	digits, unit, _ := strings.Cut(text, " ")
	n, err := strconv.ParseInt(strings.ReplaceAll(digits, ",", ""), 10, 64)
	if err != nil {
		return 0, err
	}
	factor, ok := units[unit]
	if !ok {
		return 0, fmt.Errorf("no unit %q", unit)
	}
	return n * factor, nil
}

// constants evaluates the integer constants of one package, as far as they are made
// of numbers, each other, durations and conversions.
type constants struct {
	exprs map[string]ast.Expr
}

// constantsOf collects the constants of a package, and the fields of composite
// literals in the named file: a table of sizes is one.
func constantsOf(all []source, file string) constants {
	c := constants{exprs: map[string]ast.Expr{}}
	dir := file[:strings.LastIndexByte(file, '/')]
	eachSpec(all, dir, func(spec *ast.ValueSpec) {
		for i, id := range spec.Names {
			if i < len(spec.Values) {
				c.exprs[id.Name] = spec.Values[i]
			}
		}
	})
	for _, s := range all {
		if s.path == file {
			ast.Inspect(s.file, func(n ast.Node) bool {
				if kv, ok := n.(*ast.KeyValueExpr); ok {
					if id, ok := kv.Key.(*ast.Ident); ok && c.exprs[id.Name] == nil {
						c.exprs[id.Name] = kv.Value
					}
				}
				return true
			})
		}
	}
	return c
}

var timeUnits = map[string]int64{"Nanosecond": 1, "Microsecond": 1e3, "Millisecond": 1e6, "Second": 1e9, "Minute": 60e9, "Hour": 3600e9}

// value evaluates a constant by name.
func (c constants) value(name string, depth int) (constant.Value, bool) {
	e, ok := c.exprs[name]
	if !ok || depth > 20 {
		return nil, false
	}
	return c.eval(e, depth+1)
}

func (c constants) eval(e ast.Expr, depth int) (constant.Value, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		v := constant.MakeFromLiteral(e.Value, e.Kind, 0)
		return v, v.Kind() == constant.Int
	case *ast.Ident:
		return c.value(e.Name, depth)
	case *ast.ParenExpr:
		return c.eval(e.X, depth)
	case *ast.SelectorExpr:
		x, ok := e.X.(*ast.Ident)
		n, known := timeUnits[e.Sel.Name]
		return constant.MakeInt64(n), ok && known && x.Name == "time"
	case *ast.CallExpr: // a conversion
		if len(e.Args) == 1 {
			return c.eval(e.Args[0], depth)
		}
	case *ast.BinaryExpr:
		return c.binary(e, depth)
	}
	return nil, false
}

func (c constants) binary(e *ast.BinaryExpr, depth int) (constant.Value, bool) {
	x, okX := c.eval(e.X, depth)
	y, okY := c.eval(e.Y, depth)
	if !okX || !okY {
		return nil, false
	}
	switch e.Op {
	case token.SHL:
		n, ok := constant.Uint64Val(y)
		return constant.Shift(x, token.SHL, uint(n)), ok && n < 64
	case token.QUO:
		return constant.BinaryOp(x, token.QUO_ASSIGN, y), true // of integers
	case token.ADD, token.SUB, token.MUL:
		return constant.BinaryOp(x, e.Op, y), true
	}
	return nil, false
}

// wrongLimits compares a document's tables of limits with the code.
func wrongLimits(text string, all []source) (wrong []string, rows int) {
	for _, m := range limitRow.FindAllStringSubmatch(text, -1) {
		rows++
		name, said, file := m[1], m[2], m[3]
		want, err := documented(said)
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("%s: %q is no value: %v", name, said, err))
			continue
		}
		v, ok := constantsOf(all, file).value(name, 0)
		if !ok {
			wrong = append(wrong, fmt.Sprintf("%s: no such constant in %s", name, file))
			continue
		}
		if n, exact := constant.Int64Val(v); !exact || n != want {
			wrong = append(wrong, fmt.Sprintf("%s is %s in %s, the document says %s", name, v, file, said))
		}
	}
	return wrong, rows
}

func TestDocs_limits_are_those_of_the_code(t *testing.T) {
	wrong, rows := wrongLimits(page(t, "docs/ARCHITECTURE.md"), sources(t))
	for _, w := range wrong {
		t.Error(w)
	}
	if rows < 50 {
		t.Fatalf("found only %d limits", rows)
	}
}

func TestDocs_limits_flag(t *testing.T) {
	all := []source{parse(t, "a/x.go", `package a
const (
	lines = 1 << 10
	bytes = lines*2 + int64(3)
	wait  = 500 * time.Millisecond
	half  = lines / 2
)
func sizes() s { return s{field: 12 << 20} }
`)}
	text := strings.Join([]string{
		"| `lines` | 1,024 | `a/x.go` | ok |", "| `bytes` | 2,051 | `a/x.go` | ok |", "| `wait` | 500 ms | `a/x.go` | ok |",
		"| `half` | 512 | `a/x.go` | ok |", "| `field` | 12 MiB | `a/x.go` | ok |",
		"| `lines` | 1 MiB | `a/x.go` | wrong |", "| `gone` | 1 | `a/x.go` | wrong |", "| `lines` | 1 mile | `a/x.go` | wrong |",
	}, "\n")
	wrong, rows := wrongLimits(text, all)
	if rows != 8 || len(wrong) != 3 {
		t.Errorf("%d rows, wrong: %q; want 8 rows, the last three wrong", rows, wrong)
	}
}

// TestDocs_defaults: the table of configured limits shows the reference's defaults.
func TestDocs_defaults_are_those_of_the_reference(t *testing.T) {
	reference, err := os.ReadFile(filepath.Join(root(t), "config.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `(\\w+)\\.(\\w+)` \\| (\\d+) \\|")
	rows := row.FindAllStringSubmatch(page(t, "docs/ARCHITECTURE.md"), -1)
	if len(rows) < 10 {
		t.Fatalf("found only %d keys", len(rows))
	}
	for _, m := range rows {
		block := regexp.MustCompile(`(?ms)^` + m[1] + ` \{.*?^\}`).Find(reference)
		key := regexp.MustCompile(`(?m)^\s*#?\s*` + m[2] + `\s*=\s*(\d+)`).FindSubmatch(block)
		if key == nil || string(key[1]) != m[3] {
			t.Errorf("%s.%s: the document says %s, config.hcl %s", m[1], m[2], m[3], key)
		}
	}
}
