package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

func itoa(n int) string { return strconv.Itoa(n) }

// section finds the section that a block of the file is about. For a handler,
// whose name is free, it is one with the right labels and no keys yet.
func (r *reader) section(block *hclsyntax.Block) (section, bool) {
	if block.Type == "handler" {
		return r.handlerLabels(block)
	}
	var sameName []section
	for _, s := range schema(&r.cfg, r.base) {
		if s.block != block.Type || s.block == "" {
			continue
		}
		if slices.Equal(s.labels, block.Labels) {
			return s, true
		}
		sameName = append(sameName, s)
	}
	r.unknownBlock(block, sameName)
	return section{}, false
}

// handlerLabels wants a kind and a name. The names of the built-in handlers are
// kept free, so that a route means the same in every file.
func (r *reader) handlerLabels(block *hclsyntax.Block) (section, bool) {
	const example = `write it like: handler "exec" "post-journal" { … }`
	if len(block.Labels) != 2 {
		r.report(block.DefRange(), "block handler needs a kind and a name", example)
		return section{}, false
	}
	kind, name := block.Labels[0], block.Labels[1]
	if !slices.Contains(handlerKinds(), kind) {
		hint := didYouMean(kind, handlerKinds())
		if kind == KindLog || kind == KindConsumers {
			hint = "it is built in; a route can name it without a block"
		}
		r.report(block.LabelRanges[0], "a handler must be of kind \""+strings.Join(handlerKinds(), `" or "`)+"\", is "+shown(kind), hint)
		return section{}, false
	}
	if wrong := checkHandlerName(name); wrong != nil {
		r.report(block.LabelRanges[1], "the second label of a handler "+wrong.what, wrong.hint)
		return section{}, false
	}
	if name == KindLog || name == KindConsumers {
		r.report(block.LabelRanges[1], "handler name "+shown(name)+" is taken by the built-in handler", "choose another name")
		return section{}, false
	}
	return section{block: "handler", labels: []string{kind, name}}, true
}

// unknownBlock reports a block that has no section; sameName are the sections
// that differ in their labels only.
func (r *reader) unknownBlock(block *hclsyntax.Block, sameName []section) {
	name := cut(block.Type)
	switch {
	case len(sameName) == 0:
		r.report(block.DefRange(), "there is no block "+name, r.blockHint(block.Type))
	case len(sameName[0].labels) == 0:
		r.report(block.DefRange(), "block "+name+" has no label", "write it like: "+name+" { … }")
	case len(block.Labels) != 1:
		r.report(block.DefRange(), "block "+name+" needs one label: "+labelsOf(sameName), "write it like: "+name+` "`+sameName[0].labels[0]+`" { … }`)
	default:
		var labels []string
		for _, s := range sameName {
			labels = append(labels, s.labels[0])
		}
		r.report(block.LabelRanges[0], "there is no "+name+" "+shown(block.Labels[0])+", only "+labelsOf(sameName), didYouMean(block.Labels[0], labels))
	}
}

// labelsOf lists the labels that a block may have.
func labelsOf(sections []section) string {
	var labels []string
	for _, s := range sections {
		labels = append(labels, `"`+s.labels[0]+`"`)
	}
	return strings.Join(labels, ", ")
}

// unknownKey reports a key that its block does not have.
func (r *reader) unknownKey(s section, attribute *hclsyntax.Attribute) {
	where := "at the top level"
	if s.block != "" {
		where = "in block " + s.block
	}
	r.report(attribute.NameRange, "there is no key "+cut(attribute.Name)+" "+where, r.keyHint(s, attribute.Name))
}

// keyHint finds what an unknown key was meant to be: a block written as a key, a
// key of another block, or a misspelling.
func (r *reader) keyHint(s section, name string) string {
	var here []string
	for _, one := range s.settings {
		here = append(here, one.name)
	}
	for _, other := range r.allSections() {
		if other.block == name && s.block == "" {
			return "it is a block: write " + name + " { … }, without ="
		}
	}
	if near := nearest(name, here); near != "" {
		return `did you mean "` + near + `"?`
	}
	for _, other := range r.allSections() {
		if _, ok := other.find(name); !ok {
			continue
		}
		if other.block == "" {
			return "it belongs to the top level, before the blocks"
		}
		return "it belongs into block " + strings.Join(other.path(), " ")
	}
	return "keys here: " + strings.Join(here, ", ")
}

// blockHint finds what an unknown block was meant to be.
func (r *reader) blockHint(name string) string {
	var blocks []string
	for _, s := range r.allSections() {
		if s.block == name {
			return "close the block before it first"
		}
		if _, ok := s.find(name); ok {
			return "it is a key: write " + name + " = …"
		}
		if s.block != "" && !slices.Contains(blocks, s.block) {
			blocks = append(blocks, s.block)
		}
	}
	if near := nearest(name, blocks); near != "" {
		return `did you mean "` + near + `"?`
	}
	return "blocks: " + strings.Join(blocks, ", ")
}

// allSections are the sections of any file plus one handler of each kind, for
// hints. They are bound to a Config that nobody reads.
func (r *reader) allSections() []section {
	var any Config
	for _, kind := range handlerKinds() {
		any.Handlers = append(any.Handlers, newHandler(kind, "NAME"))
	}
	return schema(&any, r.base)
}
