package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// module is the path under which our own packages are imported.
const module = "breakwater"

// source is one parsed Go file of the main module.
type source struct {
	path string // from the root, with slashes: "queue/message.go"
	fset *token.FileSet
	file *ast.File
	body []byte
}

func (s source) dir() string     { return path.Dir(s.path) }
func (s source) test() bool      { return strings.HasSuffix(s.path, "_test.go") }
func (s source) generated() bool { return ast.IsGenerated(s.file) }

// at renders a finding the way compilers do, so that editors can jump to it.
func (s source) at(pos token.Pos, format string, args ...any) string {
	return fmt.Sprintf("%s:%d: %s", s.path, s.fset.Position(pos).Line, fmt.Sprintf(format, args...))
}

// importName returns the local name of an imported package, so that a check can
// tell time.Sleep from a method of a variable that happens to be called time.
func (s source) importName(importPath string) string {
	for _, spec := range s.file.Imports {
		if strings.Trim(spec.Path.Value, `"`) != importPath {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path.Base(importPath)
	}
	return ""
}

// uses reports every mention of importPath.name for one of names, in call or as
// a value: passing time.Sleep on is no better than calling it.
func (s source) uses(importPath string, names ...string) []ast.Node {
	local := s.importName(importPath)
	if local == "" {
		return nil
	}
	var found []ast.Node
	ast.Inspect(s.file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == local && slices.Contains(names, sel.Sel.Name) {
			found = append(found, sel)
		}
		return true
	})
	return found
}

// parse makes a source of text in memory; the checks' own tests are written with it.
func parse(t testing.TB, name, text string) source {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatalf("parse %s: %v", name, err)
	}
	return source{path: name, fset: fset, file: file, body: []byte(text)}
}

// root finds the top of the repository: the folder whose go.mod names our module.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(mod), "module "+module+"\n") {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatalf("no go.mod of module %s above the test", module)
		}
		dir = parent
	}
}

// walk calls visit with every file of the repository that is not ignored by
// its .gitignore. Files not yet committed are seen too: better before than after.
func walk(t testing.TB, visit func(name string)) {
	t.Helper()
	top := root(t)
	ignored := readIgnore(t, filepath.Join(top, ".gitignore"))
	err := filepath.WalkDir(top, func(full string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(top, full)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		switch {
		case name == ".git", name != "." && ignored(name, d.IsDir()):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.Type().IsRegular():
			visit(name)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("walk the repository: %v", err)
	}
}

// readIgnore understands the part of .gitignore that ours uses: "/name" at the
// root, "name" and "*.ext" anywhere, a closing slash for folders only. Anything
// else is refused, so that this file and git never disagree in silence.
func readIgnore(t testing.TB, file string) func(name string, isDir bool) bool {
	t.Helper()
	body, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	ignored, err := parseIgnore(string(body))
	if err != nil {
		t.Fatal(err)
	}
	return ignored
}

func parseIgnore(body string) (func(name string, isDir bool) bool, error) {
	var patterns []string
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		inner := strings.TrimSuffix(strings.TrimPrefix(line, "/"), "/")
		if strings.ContainsAny(inner, `!\[?`) || strings.Contains(inner, "**") ||
			strings.Contains(inner, "/") && !strings.HasPrefix(line, "/") {
			return nil, fmt.Errorf(".gitignore: pattern %q is of a kind that readIgnore does not know", line)
		}
		patterns = append(patterns, line)
	}
	return func(name string, isDir bool) bool {
		return slices.ContainsFunc(patterns, func(p string) bool {
			if strings.HasSuffix(p, "/") && !isDir {
				return false
			}
			p = strings.TrimSuffix(p, "/")
			target := path.Base(name)
			if strings.HasPrefix(p, "/") {
				p, target = p[1:], name
			}
			ok, err := path.Match(p, target)
			return err == nil && ok
		})
	}, nil
}

// otherModule says whether a path belongs to a nested module (or is data): those
// have their own go.mod, so our import rules don't bind them.
func otherModule(name string) bool {
	return strings.HasPrefix(name, "bench/") || strings.HasPrefix(name, "tools/") ||
		strings.HasPrefix(name, "testdata/") || strings.Contains(name, "/testdata/")
}

// sources parses every Go file of the main module.
func sources(t testing.TB) []source {
	t.Helper()
	top := root(t)
	var all []source
	walk(t, func(name string) {
		if !strings.HasSuffix(name, ".go") || otherModule(name) {
			return
		}
		body, err := os.ReadFile(filepath.Join(top, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		if src := parse(t, name, string(body)); !standalone(src) {
			all = append(all, src)
		}
	})
	if len(all) == 0 {
		t.Fatal("found no Go file: the house would be judged unseen")
	}
	return all
}

// standalone says whether a file is a program of its own that only shares the
// folder (a generator: "//go:build ignore"); it ships in no package.
func standalone(s source) bool {
	for _, group := range s.file.Comments {
		if group.Pos() > s.file.Package {
			break
		}
		for _, c := range group.List {
			if c.Text == "//go:build ignore" {
				return true
			}
		}
	}
	return false
}

// byPackage groups files by folder, in a stable order.
func byPackage(files []source) (dirs []string, packages map[string][]source) {
	packages = map[string][]source{}
	for _, f := range files {
		if _, seen := packages[f.dir()]; !seen {
			dirs = append(dirs, f.dir())
		}
		packages[f.dir()] = append(packages[f.dir()], f)
	}
	slices.Sort(dirs)
	return dirs, packages
}

func TestIgnore(t *testing.T) {
	ignored, err := parseIgnore("# built\n/bin/\n/breakwater\n*.test\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		isDir bool
		want  bool
	}{
		{"bin", true, true},
		{"bin", false, false},
		{"queue/bin", true, false},
		{"breakwater", false, true},
		{"packaging/breakwater", false, false},
		{"queue/queue.test", false, true},
		{"queue/queue_test.go", false, false},
	} {
		if got := ignored(c.name, c.isDir); got != c.want {
			t.Errorf("ignored(%q, dir=%v) = %v, want %v", c.name, c.isDir, got, c.want)
		}
	}
	for _, p := range []string{"!keep", "a/b", "**/x", "[ab]"} {
		if _, err := parseIgnore(p + "\n"); err == nil {
			t.Errorf("pattern %q was taken, though walk would not treat it as git does", p)
		}
	}
}

func TestStandalone(t *testing.T) {
	if !standalone(parse(t, "queue/gen.go", "//go:build ignore\n\n// Gen makes a table.\npackage main\n")) {
		t.Error("a generator was taken for a part of the package")
	}
	if standalone(parse(t, "queue/a.go", "package queue\n\n//go:build ignore\n")) || standalone(parse(t, "queue/b.go", "//go:build linux\n\npackage queue\n")) {
		t.Error("a part of the package was taken for a generator: its rules would not be checked")
	}
}
