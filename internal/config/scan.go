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

func textProblem(file string, src []byte, at int, what, hint string) *Problem {
	line := src[:at]
	number := bytes.Count(line, []byte("\n")) + 1
	if start := bytes.LastIndexByte(line, '\n'); start >= 0 {
		line = line[start+1:]
	}
	return &Problem{File: file, Line: number, Column: utf8.RuneCount(line) + 1, Message: "the file has " + what, Hint: hint}
}

// checkNesting counts what makes the HCL parser recurse. Without it 100,000
// parentheses, a file of 200 KB, overflow the stack, which Go cannot recover
// from. The tokens are the parser's own, so the two cannot disagree about what
// is a bracket and what is text; the scanner itself does not recurse.
//
// Brackets, quotes and templates are bounded by depth. All other recursion (unary
// runs, conditionals, splats, template directives) takes an operator each time,
// so bounding their number bounds its depth.
func checkNesting(file string, src []byte) *Problem {
	tokens, _ := hclsyntax.LexConfig(src, file, hcl.InitialPos) // its complaints come again, from the parser
	depth, operators := 0, 0
	for _, token := range tokens {
		switch classify(token.Type) {
		case opener:
			depth++
		case closer:
			depth--
		case operator:
			operators++
		}
		if depth > maxDepth {
			return at(file, token.Range, "the file nests deeper than "+itoa(maxDepth)+" brackets", "no setting needs more than three; look for one that is never closed")
		}
		if operators > maxOperators {
			return at(file, token.Range, "the file holds more than "+itoa(maxOperators)+" operators", "write values themselves: nothing is computed in this file")
		}
	}
	return nil
}

type tokenClass int

const (
	plainToken tokenClass = iota
	opener
	closer
	operator
)

func classify(t hclsyntax.TokenType) tokenClass {
	switch t {
	case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen,
		hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc, hclsyntax.TokenTemplateInterp:
		return opener
	case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen,
		hclsyntax.TokenCQuote, hclsyntax.TokenCHeredoc, hclsyntax.TokenTemplateSeqEnd:
		return closer
	case hclsyntax.TokenIdent, hclsyntax.TokenNumberLit, hclsyntax.TokenQuotedLit, hclsyntax.TokenStringLit,
		hclsyntax.TokenEqual, hclsyntax.TokenComma, hclsyntax.TokenComment, hclsyntax.TokenNewline, hclsyntax.TokenEOF:
		return plainToken
	}
	// everything else, %{ and tokens that later versions may add included
	return operator
}

// at is a problem at one place of the file.
func at(file string, where hcl.Range, message, hint string) *Problem {
	return &Problem{File: file, Line: where.Start.Line, Column: where.Start.Column, Message: message, Hint: hint}
}
