package config

import (
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// kind is what a literal looks like in the file, quotes and all.
type kind string

const (
	kindNumber kind = "a number"
	kindString kind = "a text"
	kindBool   kind = "true or false"
	kindNull   kind = "null"
	kindList   kind = "a list"
	kindObject kind = "an object"
)

// literal is a value as it is written. Nothing is converted: 1e3 is the text
// "1e3", and "4" is a string.
type literal struct {
	kind  kind
	text  string    // numbers: the digits as written; strings: decoded; bool: true or false
	items []literal // lists
}

// readLiteral takes a literal off the syntax tree. An expression that would have
// to be evaluated is a complaint, so that no evaluator ever runs.
func readLiteral(expr hclsyntax.Expression, src []byte) (literal, *complaint) {
	switch e := expr.(type) {
	case *hclsyntax.LiteralValueExpr:
		return scalar(e, src), nil
	case *hclsyntax.TemplateExpr:
		return templateText(e, src)
	case *hclsyntax.TupleConsExpr:
		lit := literal{kind: kindList}
		for _, item := range e.Exprs {
			one, wrong := readLiteral(item, src)
			if wrong != nil {
				return literal{}, wrong
			}
			lit.items = append(lit.items, one)
		}
		return lit, nil
	case *hclsyntax.ObjectConsExpr:
		return literal{kind: kindObject}, nil
	case *hclsyntax.UnaryOpExpr:
		if number, ok := e.Val.(*hclsyntax.LiteralValueExpr); ok && e.Op == hclsyntax.OpNegate {
			lit := scalar(number, src)
			lit.text = "-" + lit.text
			return lit, nil
		}
	}
	return literal{}, notLiteral(expr)
}

// scalar reads a number, true, false or null. A number keeps its digits: HCL's
// own value would have lost how it was written.
func scalar(e *hclsyntax.LiteralValueExpr, src []byte) literal {
	written := string(e.SrcRange.SliceBytes(src))
	switch {
	case e.Val.IsNull():
		return literal{kind: kindNull, text: "null"}
	case e.Val.Type() == cty.Bool:
		return literal{kind: kindBool, text: written}
	case e.Val.Type() == cty.String:
		return literal{kind: kindString, text: e.Val.AsString()}
	}
	return literal{kind: kindNumber, text: written}
}

// templateText reads a string. The syntax tree holds it in Unicode's composed
// form, which names another file where a path was written decomposed, so it is
// decoded once more from the source, byte for byte.
func templateText(e *hclsyntax.TemplateExpr, src []byte) (literal, *complaint) {
	for _, part := range e.Parts {
		if _, ok := part.(*hclsyntax.LiteralValueExpr); !ok {
			return literal{}, notLiteral(e)
		}
	}
	// The parser has found no error in these bytes, so neither call can.
	tokens, _ := hclsyntax.LexExpression(e.SrcRange.SliceBytes(src), "", hcl.InitialPos)
	var decoded strings.Builder
	for _, token := range tokens {
		if token.Type == hclsyntax.TokenQuotedLit {
			piece, _ := hclsyntax.ParseStringLiteralToken(token)
			decoded.WriteString(piece)
		}
	}
	return literal{kind: kindString, text: decoded.String()}, nil
}

// notLiteral says what kind of expression was found, and what to write instead.
func notLiteral(expr hclsyntax.Expression) *complaint {
	const plain = "write the value itself: nothing is computed in this file"
	switch e := expr.(type) {
	case *hclsyntax.ScopeTraversalExpr:
		if len(e.Traversal) == 1 {
			name := e.Traversal.RootName()
			return complain(`for a text write "`+name+`", with quotes`, "must be a literal, is the bare word %s", name)
		}
		return complain("there are no variables in this file; "+plain, "must be a literal, is a variable")
	case *hclsyntax.FunctionCallExpr:
		return complain("there are no functions in this file; "+plain, "must be a literal, is a call of %s", e.Name)
	case *hclsyntax.TemplateExpr, *hclsyntax.TemplateWrapExpr:
		return complain("variables of the environment are not expanded; for a literal ${ write $${", "must be a literal, is a text with ${…} or %%{…} in it")
	}
	return complain(plain, "must be a literal, is an expression")
}
