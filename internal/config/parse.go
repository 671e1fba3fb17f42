package config

import (
	"os"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// place is where a key stands in its file, both from 1.
type place struct{ line, column int }

// Parse reads a configuration from memory. filename stands in messages only;
// relative paths in the text count from base. The error is a *Problems, and with
// it the Config is empty.
func Parse(filename string, src []byte, base string) (Config, error) {
	r := &reader{file: filename, base: base, cfg: unplaced(base), bad: map[string]bool{}}
	r.cfg.origin = origin{file: filename, places: map[string]place{}}
	r.read(src)
	return r.result()
}

// reader collects a Config and everything that is wrong with it.
type reader struct {
	file string
	src  []byte
	base string

	cfg   Config
	wrong []Problem
	bad   map[string]bool // keys with a problem: no interlock is judged by them
}

// result gives the Config, or else the problems.
func (r *reader) result() (Config, error) {
	if len(r.wrong) == 0 {
		return r.cfg, nil
	}
	sortProblems(r.wrong)
	all := &Problems{} // the half that was read is dropped: it must never be in force
	for _, one := range r.wrong {
		all.add(one)
	}
	return Config{}, all
}

// read goes from the cheapest check to the dearest; each one protects the next.
func (r *reader) read(src []byte) {
	text, wrong := checkText(r.file, src)
	if wrong == nil {
		wrong = checkComments(r.file, text)
	}
	if wrong == nil {
		wrong = checkNesting(r.file, text)
	}
	if wrong != nil {
		r.wrong = append(r.wrong, *wrong)
		return
	}
	r.src = text
	parsed, diagnostics := hclsyntax.ParseConfig(text, r.file, hcl.InitialPos)
	if !r.syntax(diagnostics) {
		return // what the parser skipped would look like missing keys
	}
	r.body(parsed.Body.(*hclsyntax.Body))
	r.cfg.place(r.base, os.Getenv("RUNTIME_DIRECTORY"))
	r.interlocks()
}

// syntax reports the parser's errors and tells whether the tree is whole: a key
// that is given twice is the one error that leaves it so.
func (r *reader) syntax(diagnostics hcl.Diagnostics) bool {
	whole := true
	for _, d := range diagnostics {
		if d.Severity != hcl.DiagError {
			continue
		}
		where := hcl.Range{}
		if d.Subject != nil {
			where = *d.Subject
		}
		if d.Summary == "Attribute redefined" {
			name := string(where.SliceBytes(r.src))
			r.report(where, name+" is given twice in the same block", "keep one of the two")
			continue
		}
		whole = false
		said := syntaxText(d)
		r.report(where, "syntax: "+said.what, said.hint)
	}
	return whole
}

func (r *reader) report(where hcl.Range, message, hint string) {
	r.wrong = append(r.wrong, *at(r.file, where, message, hint))
}

// body walks the top level.
func (r *reader) body(body *hclsyntax.Body) {
	top := schema(&r.cfg, r.base)[0]
	r.settings(top, body.Attributes)
	seen := map[string]hcl.Range{}
	for _, block := range body.Blocks {
		s, ok := r.section(block)
		if !ok {
			continue
		}
		id := strings.Join(s.path(), " ")
		if s.block == "handler" {
			id = "handler " + s.labels[1] // a route knows a handler by its name alone
		}
		if first, twice := seen[id]; twice {
			r.report(block.DefRange(), "block "+id+" is given twice, first in line "+itoa(first.Start.Line), "merge the two")
			continue
		}
		seen[id] = block.DefRange()
		r.block(s, block)
	}
	sortHandlers(r.cfg.Handlers)
}

// block reads one block into its section.
func (r *reader) block(s section, block *hclsyntax.Block) {
	var handler *Handler
	if s.block == "handler" {
		if len(r.cfg.Handlers) == MaxHandlers {
			r.report(block.DefRange(), "there are more than "+itoa(MaxHandlers)+" handlers", "")
			return
		}
		// Into a variable of its own first: the slice may move as it grows, and a
		// section points at the fields that it fills.
		fresh := newHandler(s.labels[0], s.labels[1])
		handler = &fresh
		s = handlerSection(handler, r.base)
	}
	r.cfg.origin.places[strings.Join(s.path(), ".")] = placeOf(block.DefRange())
	r.settings(s, block.Body.Attributes)
	for _, key := range required(s) {
		if block.Body.Attributes[key] == nil {
			r.bad[s.id(key)] = true
			r.report(block.DefRange(), s.id(key)+" is missing", "")
		}
	}
	for _, inner := range block.Body.Blocks {
		r.report(inner.DefRange(), "block "+inner.Type+" does not belong inside block "+s.block, r.blockHint(inner.Type))
	}
	if handler != nil {
		r.cfg.Handlers = append(r.cfg.Handlers, *handler)
	}
}

// settings reads the keys of one section. The attributes come in no order; result
// sorts what is said about them.
func (r *reader) settings(s section, attributes hclsyntax.Attributes) {
	for _, attribute := range attributes {
		one, ok := s.find(attribute.Name)
		if !ok {
			r.unknownKey(s, attribute)
			continue
		}
		id := s.id(one.name)
		r.cfg.origin.places[id] = placeOf(attribute.NameRange)
		lit, wrong := readLiteral(attribute.Expr, r.src)
		if wrong == nil {
			wrong = one.value.read(lit)
		}
		if wrong != nil {
			r.bad[id] = true
			r.report(attribute.NameRange, id+" "+wrong.what, wrong.hint)
		}
	}
}

func placeOf(where hcl.Range) place { return place{where.Start.Line, where.Start.Column} }
