package house

import (
	"go/ast"
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
		{"event", "docs/protocol.md", 28, typedStrings(all, "queue", "Event")},
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

// paths returns the paths of requests that a file's string constants spell.
func paths(all []source, file string) (found []string) {
	for _, s := range all {
		if s.path != file {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if e, ok := n.(ast.Expr); ok {
				if text, ok := stringLit(e); ok && len(text) > 1 && text[0] == '/' && !strings.Contains(text, " ") {
					found = append(found, text)
				}
			}
			return true
		})
	}
	return found
}

func TestDocs_name_every_request(t *testing.T) {
	text, all := page(t, "docs/protocol.md"), paths(sources(t), "internal/control/server.go")
	if len(all) < 15 {
		t.Fatalf("found only %v", all)
	}
	for _, p := range all {
		if !strings.Contains(text, p+"`") && !strings.Contains(text, p+"/{seq}`") {
			t.Errorf("docs/protocol.md does not name the request %s", p)
		}
	}
}

func TestDocs_name_every_request_flags(t *testing.T) {
	s := []source{parse(t, "a/server.go", `package a
var all = []string{"/v1/x", "GET", "/", "not a /path"}
`)}
	if got := paths(s, "a/server.go"); !slices.Equal(got, []string{"/v1/x"}) {
		t.Errorf("paths %v", got)
	}
}

// TestDocs_edition: the list of currencies is dated, and readers are told how.
func TestDocs_edition_of_the_currencies(t *testing.T) {
	edition := ""
	eachSpec(sources(t), "queue", func(spec *ast.ValueSpec) {
		if spec.Names[0].Name == "CurrencyEdition" {
			edition, _ = stringLit(spec.Values[0])
		}
	})
	if edition == "" || !strings.Contains(page(t, "docs/protocol.md"), edition) {
		t.Errorf("docs/protocol.md does not name the edition of ISO 4217, %q", edition)
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
