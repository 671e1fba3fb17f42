package control

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// documented reads the endpoints out of doc.go: "GET  /a/b[/{seq}]  text" is two of
// them, "POST /a/b, c" too.
func documented(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line, ok := strings.CutPrefix(strings.TrimSpace(line), "//\t")
		if !ok {
			continue
		}
		method, rest, _ := strings.Cut(line, " ")
		target, _, _ := strings.Cut(strings.TrimSpace(rest), "  ")
		if base, ok := strings.CutSuffix(target, "["+seqPart+"]"); ok {
			all = append(all, method+" "+base, method+" "+base+seqPart)
			continue
		}
		names := strings.Split(target, ", ")
		folder := names[0][:strings.LastIndexByte(names[0], '/')+1]
		for i, name := range names {
			if i > 0 {
				name = folder + name
			}
			all = append(all, method+" "+name)
		}
	}
	slices.Sort(all)
	return all
}
