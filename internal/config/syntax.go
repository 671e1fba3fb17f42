package config

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
)

// What the parser says about a file that it cannot read is written for those who
// know HCL. Most who misplace a brace do not, and they see it at night.

// syntaxText is a parser's error in our words, or in its own where it is a rare
// one.
func syntaxText(d *hcl.Diagnostic) complaint {
	switch d.Summary {
	case "Unclosed configuration block":
		return complaint{what: "the block that begins here is never closed", hint: "a } is missing, of this block or of one inside it"}
	case "Invalid multi-line string":
		return complaint{what: "a text goes on beyond its line", hint: `a " is missing; a line end inside a text is \n`}
	case "Unterminated template string":
		return complaint{what: "a text has no end", hint: `a " is missing`}
	case "Argument or block definition required":
		return complaint{what: "neither a key nor a block begins here", hint: "write key = value, or block { … }"}
	case "Invalid block definition":
		return complaint{what: "what begins here is neither a key nor a block", hint: "write key = value, or block { with the { on the same line"}
	case "Missing newline after argument":
		return complaint{what: "something stands behind a value", hint: "give each key a line of its own; a text has quotes"}
	case "Invalid single-argument block definition":
		return complaint{what: "a block on one line holds one key", hint: "give each key, and the }, a line of its own"}
	case "Invalid character":
		return complaint{what: "a character that means nothing here", hint: `texts stand in double quotes, and each key on a line of its own`}
	case "Invalid expression", "Missing expression":
		return complaint{what: "a value is missing, or is none", hint: `write a number, true, false, a text in "…" or a list in […]`}
	case "Invalid escape sequence":
		return complaint{what: "a backslash in a text escapes what follows it, and this cannot be escaped", hint: `write \\ for a backslash`}
	}
	return complaint{what: lowerFirst(oneSentence(d.Summary)), hint: lowerFirst(oneSentence(d.Detail))}
}

// oneSentence is the first sentence of a text, on one line, without its full stop.
func oneSentence(s string) string {
	first, _, _ := strings.Cut(strings.Join(strings.Fields(s), " "), ". ")
	return strings.TrimSuffix(first, ".")
}

// lowerFirst begins a text in lower case, as messages and hints do.
func lowerFirst(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToLower(first)) + s[size:]
}
