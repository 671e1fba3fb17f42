package config

import (
	"bytes"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// checkText refuses what is no text file, before anything looks for structure.
// It returns the text without a byte order mark.
func checkText(file string, src []byte) ([]byte, *Problem) {
	if len(src) > MaxFileBytes {
		return nil, &Problem{File: file, Message: "the file is larger than " + itoa(MaxFileBytes) + " bytes", Hint: "is this the right file?"}
	}
	src = bytes.TrimPrefix(src, []byte("\xef\xbb\xbf"))
	for at := 0; at < len(src); {
		r, size := utf8.DecodeRune(src[at:])
		switch {
		case r == 0:
			return nil, textProblem(file, src, at, "a NUL byte", "is this the right file?")
		case r == utf8.RuneError && size == 1:
			return nil, textProblem(file, src, at, "bytes that are not UTF-8", "save the file as UTF-8")
		}
		at += size
	}
	return src, nil
}

// textProblem points at a byte of the text, in lines and characters.
func textProblem(file string, src []byte, at int, what, hint string) *Problem {
	line := src[:at]
	number := bytes.Count(line, []byte("\n")) + 1
	if start := bytes.LastIndexByte(line, '\n'); start >= 0 {
		line = line[start+1:]
	}
	return &Problem{File: file, Line: number, Column: utf8.RuneCount(line) + 1, Message: "the file has " + what, Hint: hint}
}

// checkComments refuses a file with many comments that are never closed: the
// scanner looks for the end of each one in all that follows. Measured: 256 KiB of
// "/* " take it 40 seconds. Where a later "*/" exists it is linear.
func checkComments(file string, src []byte) *Problem {
	rest := src
	if last := bytes.LastIndex(src, []byte("*/")); last >= 0 {
		rest = src[last+2:]
	}
	if bytes.Count(rest, []byte("/*")) <= maxOpenComments {
		return nil
	}
	first := len(src) - len(rest) + bytes.Index(rest, []byte("/*"))
	return textProblem(file, src, first, "comments that are never closed", "a comment that begins with /* ends with */")
}

// checkNesting counts what makes the HCL parser recurse. Without it 100,000
// parentheses, a file of 200 KB, overflow the stack, which Go cannot recover
// from. The tokens are the parser's own, so the two cannot disagree about what
// is a bracket and what is text; the scanner itself does not recurse.
//
// Brackets, quotes and templates are bounded by depth. All other recursion (unary
// runs, conditionals, splats, template directives) takes an operator each time,
// so bounding their number bounds its depth. Heredocs are refused: the parser's
// time grows with the square of their lines (measured: 37 seconds for 256 KiB of
// empty ones), and no setting has any use for them. So does its time with the
// pieces of a text, which the scanner cuts at each $ and % (35 seconds).
func checkNesting(file string, src []byte) *Problem {
	tokens, _ := hclsyntax.LexConfig(src, file, hcl.InitialPos) // its complaints come again, from the parser
	var seen shape
	for _, token := range tokens {
		seen.count(token.Type)
		if wrong := seen.judge(); wrong != nil {
			return at(file, token.Range, wrong.what, wrong.hint)
		}
	}
	return nil
}

// shape is what a file's tokens so far ask of the parser.
type shape struct {
	depth     int // brackets, quotes and templates that are open
	operators int // in the whole file
	pieces    int // of the text that is open
	heredoc   bool
}

func (s *shape) count(t hclsyntax.TokenType) {
	if t == hclsyntax.TokenQuotedLit {
		s.pieces++
		return
	}
	s.pieces = 0
	switch t {
	case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen,
		hclsyntax.TokenOQuote, hclsyntax.TokenTemplateInterp:
		s.depth++
	case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen,
		hclsyntax.TokenCQuote, hclsyntax.TokenTemplateSeqEnd:
		s.depth = max(0, s.depth-1) // closing too much earns no credit
	case hclsyntax.TokenTemplateControl:
		s.depth++
		s.operators++ // its } ends the directive, not what the directive begins
	case hclsyntax.TokenOHeredoc:
		s.heredoc = true
	case hclsyntax.TokenIdent, hclsyntax.TokenNumberLit, hclsyntax.TokenStringLit, hclsyntax.TokenCHeredoc,
		hclsyntax.TokenEqual, hclsyntax.TokenComma, hclsyntax.TokenComment, hclsyntax.TokenNewline, hclsyntax.TokenEOF:
	default:
		s.operators++ // tokens that later versions may add included
	}
}

func (s *shape) judge() *complaint {
	switch {
	case s.heredoc:
		return complain(`write the text in quotes; a line end is \n`, "the file has a heredoc (<<)")
	case s.depth > maxDepth:
		return complain("no setting needs more than three; look for one that is never closed", "the file nests deeper than %d brackets", maxDepth)
	case s.pieces > maxPieces:
		return complain("", "a text has more than %d signs of $ or %%", maxPieces)
	case s.operators > maxOperators:
		return complain("write values themselves: nothing is computed in this file", "the file holds more than %d operators", maxOperators)
	}
	return nil
}

// at is a problem at one place of the file.
func at(file string, where hcl.Range, message, hint string) *Problem {
	return &Problem{File: file, Line: where.Start.Line, Column: where.Start.Column, Message: message, Hint: hint}
}
