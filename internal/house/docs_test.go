package house

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What documents say and code can contradict is compared with the code here: names
// of buckets, codes and events, values of limits, paths of files, names of tests.

// documents returns the pages for readers, by name.
func documents(t testing.TB) map[string]string {
	t.Helper()
	pages := map[string]string{}
	for name, body := range texts(t) {
		if strings.HasSuffix(name, ".md") && strings.HasPrefix(name, "docs/") {
			pages[name] = string(body)
		}
	}
	if len(pages) == 0 {
		t.Fatal("found no document")
	}
	return pages
}

// page returns one document.
func page(t testing.TB, name string) string {
	t.Helper()
	text, ok := documents(t)[name]
	if !ok {
		t.Fatalf("%s is missing", name)
	}
	return text
}

// missingWords returns the words that a document does not have in code style.
func missingWords(text string, words []string) (missing []string) {
	for _, w := range words {
		if !strings.Contains(text, "`"+w+"`") && !strings.Contains(text, `"`+w+`"`) {
			missing = append(missing, w)
		}
	}
	return missing
}

// typedStrings returns the string constants of one type in a package's files: the
// closed lists of codes and events.
func typedStrings(sources []source, dir, typeName string) (values []string) {
	eachSpec(sources, dir, func(spec *ast.ValueSpec) {
		id, ok := spec.Type.(*ast.Ident)
		if !ok || id.Name != typeName {
			return
		}
		for _, v := range spec.Values {
			if s, ok := stringLit(v); ok {
				values = append(values, s)
			}
		}
	})
	return values
}

// bucketNames returns the strings of a package's variables named bucket….
func bucketNames(sources []source, dir string) (names []string) {
	eachSpec(sources, dir, func(spec *ast.ValueSpec) {
		for i, id := range spec.Names {
			if !strings.HasPrefix(id.Name, "bucket") || i >= len(spec.Values) {
				continue
			}
			if call, ok := spec.Values[i].(*ast.CallExpr); ok && len(call.Args) == 1 {
				if s, ok := stringLit(call.Args[0]); ok {
					names = append(names, s)
				}
			}
		}
	})
	return names
}

func stringLit(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}

// eachSpec visits the constants and variables of a package, its tests left out.
func eachSpec(sources []source, dir string, visit func(*ast.ValueSpec)) {
	for _, s := range sources {
		if s.dir() != dir || s.test() {
			continue
		}
		for _, decl := range s.file.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range gen.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok {
					visit(v)
				}
			}
		}
	}
}

func TestDocs_name_every_word(t *testing.T) {
	all := sources(t)
	for _, list := range []struct {
		what, page string
		least      int // fewer would mean that the test has lost its way
		words      []string
	}{
		{"bucket of the store", "docs/format.md", 9, bucketNames(all, "storage/boltstore")},
		{"bucket of the ledger", "docs/format.md", 4, bucketNames(all, "storage/boltstore/ledger")},
		{"code", "docs/protocol.md", 17, typedStrings(all, "queue", "Code")},
		{"code", "docs/operating.md", 17, typedStrings(all, "queue", "Code")},
		{"code of the file", "docs/operating.md", 15, typedStrings(all, "storage/boltstore/dbfile", "Kind")},
		{"event", "docs/protocol.md", 28, typedStrings(all, "queue", "Event")},
		{"reason of why", "docs/protocol.md", 18, typedStrings(all, "queue", "Reason")},
		{"reason of QUEUE_SATURATED", "docs/protocol.md", 6, typedStrings(all, "queue", "Saturation")},
	} {
		t.Run(list.what, func(t *testing.T) {
			if len(list.words) < list.least {
				t.Fatalf("found only %d: %v", len(list.words), list.words)
			}
			for _, w := range missingWords(page(t, list.page), list.words) {
				t.Errorf("%s does not name the %s %q", list.page, list.what, w)
			}
		})
	}
}

func TestDocs_name_every_word_flags(t *testing.T) {
	s := []source{parse(t, "queue/x.go", `package queue
const (
	CodeA Code = "A_A"
	CodeB Code = "B_B"
	other      = "C"
)
var bucketX = []byte("x_x")
`)}
	codes := typedStrings(s, "queue", "Code")
	if !slices.Equal(codes, []string{"A_A", "B_B"}) {
		t.Fatalf("codes %v", codes)
	}
	if got := bucketNames(s, "queue"); !slices.Equal(got, []string{"x_x"}) {
		t.Fatalf("buckets %v", got)
	}
	if got := missingWords("`A_A` and B_B", codes); !slices.Equal(got, []string{"B_B"}) {
		t.Fatalf("missing %v, want the one without code style", got)
	}
}

// repoFile matches what looks like a file of the repository. Whatever begins like
// one of our folders and ends like one of our files has to be one.
var repoFile = regexp.MustCompile(`\b(?:queue|storage|internal|partition|docs|packaging|testdata|scripts|tools|bench)/[\w./-]*\w\.(?:go|md|dict|hcl|ndjson|py|sh|mod|service|socket|txtar)\b`)

// goneFiles returns the files that a document names and that are not there.
func goneFiles(text string, exists func(string) bool) (gone []string) {
	for _, name := range repoFile.FindAllString(text, -1) {
		if !exists(name) {
			gone = append(gone, name)
		}
	}
	return gone
}

func TestDocs_files_exist(t *testing.T) {
	top, named := root(t), 0
	for name, text := range documents(t) {
		named += len(repoFile.FindAllString(text, -1))
		for _, gone := range goneFiles(text, func(file string) bool {
			_, err := os.Stat(filepath.Join(top, filepath.FromSlash(file)))
			return err == nil
		}) {
			t.Errorf("%s names %s, which is not there", name, gone)
		}
	}
	if named == 0 {
		t.Fatal("no document names a file")
	}
}

func TestDocs_files_exist_flags(t *testing.T) {
	got := goneFiles("see `queue/gone.go`, queue/here.go. and xqueue/no.go", func(name string) bool { return name == "queue/here.go" })
	if !slices.Equal(got, []string{"queue/gone.go"}) {
		t.Errorf("gone: %v", got)
	}
}

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

func TestDocs_show_every_package(t *testing.T) {
	var packages []string
	for _, r := range rows {
		if r.pkg != "." { // main.go
			packages = append(packages, r.pkg)
		}
	}
	if missing := missingWords(page(t, "docs/ARCHITECTURE.md"), packages); len(missing) > 0 {
		t.Errorf("docs/ARCHITECTURE.md does not say what these packages are for: %q", missing)
	}
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

// testName matches the name of a test with its subtests, in code style.
var testName = regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w*)((?:/[^`]+)*)`")

// goneTests returns the tests that a document names and no source has. A subtest is
// found by its text: with spaces, as go test rewrites them, or without.
func goneTests(text string, all []source) (gone []string) {
	for _, m := range testName.FindAllStringSubmatch(text, -1) {
		defined := func(s source) bool { return strings.Contains(string(s.body), "func "+m[1]+"(") }
		if !slices.ContainsFunc(all, defined) {
			gone = append(gone, m[1])
			continue
		}
		for _, sub := range strings.Split(strings.TrimPrefix(m[2], "/"), "/") {
			words := strings.ReplaceAll(sub, "_", " ")
			if sub != "" && !slices.ContainsFunc(all, func(s source) bool {
				body := string(s.body)
				return strings.Contains(body, `"`+words+`"`) || strings.Contains(body, `"`+sub+`"`)
			}) {
				gone = append(gone, m[1]+"/"+sub)
			}
		}
	}
	return gone
}

func TestDocs_tests_exist(t *testing.T) {
	all, named := sources(t), 0
	for name, text := range documents(t) {
		named += len(testName.FindAllString(text, -1))
		for _, gone := range goneTests(text, all) {
			t.Errorf("%s names the test %s, which is not there", name, gone)
		}
	}
	if named == 0 {
		t.Fatal("no document names a test")
	}
}

func TestDocs_tests_exist_flags(t *testing.T) {
	all := []source{parse(t, "a/x_test.go", `package a
func TestHere(t *testing.T) { t.Run("keeps its place", nil); t.Run("as_it_is", nil) }
`)}
	got := goneTests("`TestHere/keeps_its_place` `TestHere/as_it_is` `TestHere/gone` `TestGone` TestPlain", all)
	if want := []string{"TestHere/gone", "TestGone"}; !slices.Equal(got, want) {
		t.Errorf("gone: %v, want %v", got, want)
	}
}
