package config

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
)

// HCL is the effective configuration as a file: every key, no comments, secrets
// masked. Without secrets it reads back, through Parse, as the same Config.
func (c Config) HCL() []byte {
	c = c.masked()
	var b strings.Builder
	for i, s := range schema(&c, "") {
		indent := ""
		if s.block != "" {
			indent = "  "
			if i > 0 {
				b.WriteString("\n")
			}
			b.WriteString(s.block)
			for _, label := range s.labels {
				b.WriteString(" " + quoted(label))
			}
			b.WriteString(" {\n")
		}
		writeSettings(&b, s.settings, indent)
		if s.block != "" {
			b.WriteString("}\n")
		}
	}
	return []byte(b.String())
}

// writeSettings aligns the equals signs, as the reference file does.
func writeSettings(b *strings.Builder, settings []setting, indent string) {
	widest := 0
	for _, one := range settings {
		widest = max(widest, len(one.name))
	}
	for _, one := range settings {
		fmt.Fprintf(b, "%s%-*s = %s\n", indent, widest, one.name, inHCL(one.value.plain()))
	}
}

// inHCL writes a plain value as a literal.
func inHCL(v any) string {
	switch v := v.(type) {
	case string:
		return quoted(v)
	case []string:
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = quoted(item)
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	return fmt.Sprint(v) // int64 and bool are written alike in Go and HCL
}

// quoted is a string literal of HCL. $ and % are written as escapes where they
// would begin a template; \u0024{ is unambiguous where $${ is not ($$${).
func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i, r := range s {
		opens := i+1 < len(s) && s[i+1] == '{'
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case (r == '$' || r == '%') && opens, unprintable(r):
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// unprintable reports whether a person would not see r, or not as what it is.
func unprintable(r rune) bool { return r != ' ' && !unicode.IsPrint(r) || r == unicode.ReplacementChar }

// Effective is the configuration as one JSON document: {"data_dir":…,
// "queue":{"prefetch":32,…},"socket":{"enqueue":{…}},…}. Its members and their
// order depend on the configuration alone, never on how the file was written, so
// that equal bytes mean an equal configuration. It is what the store keeps to
// notice a change, and what Diff compares.
//
// Secrets are masked in it. A change of nothing but a masked part is therefore
// no change here; Reloadable does see it.
func (c Config) Effective() []byte {
	c = c.masked()
	var b strings.Builder
	enc := jsontext.NewEncoder(&b)
	write := func(tokens ...jsontext.Token) {
		for _, t := range tokens {
			// A strings.Builder never fails, every string here has passed checkText,
			// and no name comes twice, so that there is no error to hand on.
			_ = enc.WriteToken(t)
		}
	}
	write(jsontext.BeginObject)
	// Sections that share a path's beginning (socket enqueue, socket consume) are
	// neighbours in the schema, so each object is opened once.
	var open []string // names of the objects that are open
	for _, s := range schema(&c, "") {
		path := s.path()
		same := 0
		for same < len(open) && same < len(path) && open[same] == path[same] {
			same++
		}
		for range len(open) - same {
			write(jsontext.EndObject)
		}
		for _, name := range path[same:] {
			write(jsontext.String(name), jsontext.BeginObject)
		}
		open = path
		for _, one := range s.settings {
			write(jsontext.String(one.name))
			write(inJSON(one.value.plain())...)
		}
	}
	for range len(open) + 1 {
		write(jsontext.EndObject)
	}
	return []byte(strings.TrimSuffix(b.String(), "\n"))
}

// inJSON writes a plain value as tokens.
func inJSON(v any) []jsontext.Token {
	switch v := v.(type) {
	case int64:
		return []jsontext.Token{jsontext.Int(v)}
	case bool:
		return []jsontext.Token{jsontext.Bool(v)}
	case []string:
		tokens := []jsontext.Token{jsontext.BeginArray}
		for _, item := range v {
			tokens = append(tokens, jsontext.String(item))
		}
		return append(tokens, jsontext.EndArray)
	}
	return []jsontext.Token{jsontext.String(v.(string))}
}

// masked is a copy whose secrets are hidden. A new kind of secret belongs here.
func (c Config) masked() Config {
	c.Handlers = append([]Handler(nil), c.Handlers...)
	for i := range c.Handlers {
		c.Handlers[i].URL = masked(c.Handlers[i].URL)
	}
	return c
}
