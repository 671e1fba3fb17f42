package house

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestArchitecture is the import table as a failing test.
func TestArchitecture(t *testing.T) {
	for _, finding := range checkImports(rows, doors, sources(t)) {
		t.Error(finding)
	}
}

// TestArchitecture_table keeps the map itself honest.
func TestArchitecture_table(t *testing.T) {
	files := sources(t)
	_, packages := byPackage(files)
	level := map[string]int{}
	for i, r := range rows {
		if _, twice := level[r.pkg]; twice {
			t.Errorf("%s has two rows", r.pkg)
		}
		level[r.pkg] = i
		if r.why == "" {
			t.Errorf("row %s gives no reason", r.pkg)
		}
		if len(packages[r.pkg]) == 0 {
			t.Errorf("row %s: there is no such package", r.pkg)
		}
	}
	for _, r := range rows {
		for _, own := range r.own {
			switch below, ok := level[own]; {
			case !ok:
				t.Errorf("row %s lets in %s, which has no row", r.pkg, own)
			case below <= level[r.pkg]:
				t.Errorf("row %s lets in %s, which stands above it: imports go down", r.pkg, own)
			}
		}
		for _, own := range r.tests {
			if _, ok := level[own]; !ok {
				t.Errorf("row %s lets its tests import %s, which has no row", r.pkg, own)
			}
		}
	}
	for _, d := range doors {
		if d.why == "" {
			t.Errorf("door %s gives no reason", d.path)
		}
		for _, pkg := range slices.Concat(d.in, d.test) {
			if _, ok := level[strings.TrimSuffix(pkg, "/...")]; !ok && pkg != "..." {
				t.Errorf("door %s is in %s, which has no row", d.path, pkg)
			}
		}
	}
}

// TestArchitecture_every_dependency_has_a_door fails for a module in go.mod
// that no package may import, so that a dependency never comes in unexplained.
func TestArchitecture_every_dependency_has_a_door(t *testing.T) {
	mod, err := os.ReadFile(filepath.Join(root(t), "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	direct := directRequires(string(mod))
	if len(direct) == 0 {
		t.Fatal("found no direct requirement in go.mod")
	}
	for _, m := range direct {
		if !slices.ContainsFunc(doors, func(d door) bool { return strings.HasPrefix(m+"/", strings.TrimSuffix(d.path, "/")+"/") }) {
			t.Errorf("go.mod requires %s, but no door leads to it", m)
		}
	}
}

// directRequires lists the modules of go.mod that are not marked indirect.
func directRequires(mod string) []string {
	var direct []string
	inside := false
	for line := range strings.Lines(mod) {
		line = strings.TrimSpace(line)
		switch {
		case line == "require (":
			inside = true
		case line == ")":
			inside = false
		case inside && !strings.Contains(line, "// indirect"):
			direct = append(direct, strings.Fields(line)[0])
		}
	}
	return direct
}

// checkImports returns what in files breaks the table.
func checkImports(rows []row, doors []door, files []source) []string {
	byName := map[string]row{}
	for _, r := range rows {
		byName[r.pkg] = r
	}
	var findings []string
	dirs, packages := byPackage(files)
	for _, dir := range dirs {
		r, known := byName[dir]
		if !known {
			findings = append(findings, dir+": the package has no row in arch_table_test.go: say what it may import, and why")
			continue
		}
		for _, f := range packages[dir] {
			for _, spec := range f.file.Imports {
				if complaint := judge(r, doors, f.test(), strings.Trim(spec.Path.Value, `"`)); complaint != "" {
					findings = append(findings, f.at(spec.Pos(), "%s", complaint))
				}
			}
		}
	}
	return findings
}

// judge returns why r's package may not import target, or "".
func judge(r row, doors []door, test bool, target string) string {
	if target == module || strings.HasPrefix(target, module+"/") {
		own := strings.TrimPrefix(strings.TrimPrefix(target, module), "/")
		if own == "" {
			own = "."
		}
		return judgeOwn(r, test, own)
	}
	d, found := doorTo(doors, target)
	switch {
	case found && admits(d.in, r.pkg), found && test && admits(d.test, r.pkg):
		return ""
	case found:
		return r.pkg + " may not import " + target + ": " + d.why
	case strings.Contains(strings.Split(target, "/")[0], "."):
		return target + " has no door in arch_table_test.go: say who may import it, and why"
	}
	return "" // the rest of the standard library is open
}

func judgeOwn(r row, test bool, own string) string {
	if slices.Contains(r.own, own) {
		return ""
	}
	// A test in package x_test imports x itself.
	if test && (own == r.pkg || slices.Contains(everyTest, own) || slices.Contains(r.tests, own)) {
		return ""
	}
	return r.pkg + " may not import " + own + ": " + r.why
}

// doorTo finds the most exact door for an import path: "net/http" before "net".
// A door in the standard library opens that package alone; a module's door, all
// packages of the module.
func doorTo(doors []door, target string) (door, bool) {
	best, found := door{}, false
	for _, d := range doors {
		prefix := strings.TrimSuffix(d.path, "/") + "/"
		isModule := strings.Contains(strings.Split(d.path, "/")[0], ".")
		if d.path == target || isModule && strings.HasPrefix(target, prefix) {
			if !found || len(d.path) > len(best.path) {
				best, found = d, true
			}
		}
	}
	return best, found
}

// admits reports whether a list of packages covers pkg.
func admits(list []string, pkg string) bool {
	return slices.ContainsFunc(list, func(p string) bool {
		if p == "..." || p == pkg {
			return true
		}
		below, deep := strings.CutSuffix(p, "/...")
		return deep && (pkg == below || strings.HasPrefix(pkg, below+"/"))
	})
}

func TestArchitecture_flags(t *testing.T) {
	for _, c := range []struct {
		promise, file, imports string
		want                   string // part of the finding; empty: none
	}{
		{"queue may use partition", "queue/a.go", "breakwater/partition", ""},
		{"imports go down only", "queue/a.go", "breakwater/storage/boltstore", "queue may not import storage/boltstore"},
		{"levels don't know each other", "internal/socket/a.go", "breakwater/internal/control", "may not import internal/control"},
		{"nobody imports the program", "internal/cli/a.go", "breakwater", "may not import ."},
		{"bbolt stays behind its door", "queue/dispatch/a.go", "go.etcd.io/bbolt", "may not import go.etcd.io/bbolt"},
		{"a door holds for sub-packages of the module", "storage/memstore/a.go", "go.etcd.io/bbolt/errors", "may not import go.etcd.io/bbolt/errors"},
		{"a door opens for packages below", "storage/boltstore/ledger/a.go", "go.etcd.io/bbolt", ""},
		{"a test is bound too", "queue/dispatch/a_test.go", "go.etcd.io/bbolt", "may not import go.etcd.io/bbolt"},
		{"an unknown dependency needs a door", "queue/a.go", "example.org/left-pad", "has no door"},
		{"net/http is not everyone's", "internal/socket/a.go", "net/http", "may not import net/http"},
		{"net does not open net/http", "internal/app/a.go", "net/http", "may not import net/http"},
		{"an unlisted standard package is open", "queue/a.go", "strings", ""},
		{"property tests are for tests", "queue/a.go", "pgregory.net/rapid", "may not import pgregory.net/rapid"},
		{"tests may use them", "queue/a_test.go", "pgregory.net/rapid", ""},
		{"tests get a real store", "queue/dispatch/a_test.go", "breakwater/storage/memstore", ""},
		{"but the code does not", "queue/dispatch/a.go", "breakwater/storage/memstore", "may not import storage/memstore"},
		{"an external test imports its own package", "internal/socket/a_test.go", "breakwater/internal/socket", ""},
		{"a package without a row is refused", "internal/attic/a.go", "strings", "no row"},
	} {
		t.Run(c.promise, func(t *testing.T) {
			findings := checkImports(rows, doors, []source{parse(t, c.file, "package a\nimport _ \""+c.imports+"\"\n")})
			switch got := strings.Join(findings, "\n"); {
			case c.want == "" && got != "":
				t.Errorf("flagged: %s", got)
			case !strings.Contains(got, c.want):
				t.Errorf("got %q, want it to say %q", got, c.want)
			}
		})
	}
}
