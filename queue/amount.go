package queue

import (
	"fmt"
	"math/big"
	"strconv"

	"github.com/shopspring/decimal"
)

// Limits of an amount. They keep every later operation on it small: a
// 13-byte "1e1000000000" would otherwise print as a gigabyte of zeros.
const (
	// MaxAmountDigits bounds the digits before the exponent, leading and
	// trailing zeros included, and likewise the digits of the exponent itself.
	MaxAmountDigits = 38
	// MaxAmountExponent bounds the exponent's size, in either direction.
	MaxAmountExponent = 38
	// MaxAmountBytes is the longest text the grammar allows: both numbers in
	// full, their signs, the point and the letter E.
	MaxAmountBytes = 2*MaxAmountDigits + 4
)

// Amount is a variance amount that follows the amount grammar:
//
//	[+-]? digits ( . digits )? ( [eE] [+-]? digits )?
//
// It keeps the digits as they were written, so 10.0 and 10.00 differ as
// Amounts although they are worth the same, and so -0.00 keeps its sign. The
// zero value is the amount 0. Amounts are small values and can be compared
// with ==, which compares what was written, not what it is worth.
type Amount struct {
	coef [MaxAmountDigits]byte // ASCII digits without leading zeros; zero has none
	n    uint8                 // how many of them count
	exp  int8                  // power of ten of the last digit, -75..38
	neg  bool
}

// CheckAmount is the monetary gate: it returns the amount that s spells, if s
// follows the grammar, and if it has no more fraction digits than the minor
// unit of the currency, unless the excess digits are zeros. An empty currency
// counts as one with two minor units. The error is a [*GateError] of gate
// [Monetary] whose Field is "variance_amount" or "currency".
func CheckAmount(s, currency string) (Amount, error) {
	a, reason := parseAmount(s)
	if reason != "" {
		return Amount{}, monetary(memberAmount, reason+": "+excerpt(s))
	}
	if err := a.checkFit(currency); err != nil {
		return Amount{}, err
	}
	return a, nil
}

// checkFit holds the amount against the currency's minor unit.
func (a Amount) checkFit(currency string) *GateError {
	minor, ok := MinorUnits(currency)
	if !ok {
		return monetary(memberCurrency, "is not an ISO 4217 code with a minor unit: "+excerpt(currency))
	}
	if a.fits(minor) {
		return nil
	}
	if currency == "" {
		currency = "an amount without a currency"
	}
	return monetary(memberAmount, fmt.Sprintf("has more fraction digits than the %d of %s: %s",
		minor, currency, a.Canonical()))
}

// fits reports whether nothing but zeros stands right of the minor unit.
func (a Amount) fits(minor int) bool {
	excess := -int(a.exp) - minor
	if excess <= 0 || a.n == 0 {
		return true
	}
	if excess >= int(a.n) {
		return false // the first digit is not a zero
	}
	for _, digit := range a.coef[int(a.n)-excess : a.n] {
		if digit != '0' {
			return false
		}
	}
	return true
}

// parseAmount reads s by the grammar and its limits. It is a scan and not a
// call of a big-number parser, because those accept more (".5", "5.", "1_000",
// "NaN", U+2212) and spend seconds on a million digits before they say so. The
// reason is empty when s is good.
func parseAmount(s string) (a Amount, reason string) {
	var whole, fraction string
	a.neg, s = cutSign(s)
	whole, s = cutDigits(s)
	if whole == "" {
		return Amount{}, notDecimal
	}
	if len(s) > 0 && s[0] == '.' {
		if fraction, s = cutDigits(s[1:]); fraction == "" {
			return Amount{}, "wants a digit on each side of the point"
		}
	}
	if len(whole)+len(fraction) > MaxAmountDigits {
		return Amount{}, "has more than " + strconv.Itoa(MaxAmountDigits) + " digits"
	}
	exponent, s, reason := cutExponent(s)
	if reason != "" {
		return Amount{}, reason
	}
	if s != "" {
		return Amount{}, notDecimal
	}
	a.exp = int8(exponent - len(fraction))
	a.appendDigits(whole)
	a.appendDigits(fraction)
	return a, ""
}

const notDecimal = "is not a decimal number"

// appendDigits adds digits at the right, dropping zeros that would lead.
func (a *Amount) appendDigits(digits string) {
	for i := range len(digits) {
		if a.n == 0 && digits[i] == '0' {
			continue
		}
		a.coef[a.n] = digits[i]
		a.n++
	}
}

// cutSign returns whether s begins with a minus, and s without its sign.
func cutSign(s string) (negative bool, rest string) {
	if s == "" || s[0] != '-' && s[0] != '+' {
		return false, s
	}
	return s[0] == '-', s[1:]
}

// cutDigits splits s after its leading ASCII digits.
func cutDigits(s string) (digits, rest string) {
	i := 0
	for i < len(s) && '0' <= s[i] && s[i] <= '9' {
		i++
	}
	return s[:i], s[i:]
}

// cutExponent reads "e+5" and its like from the front of s; nothing to read is
// the exponent 0.
func cutExponent(s string) (exponent int, rest, reason string) {
	if s == "" || s[0] != 'e' && s[0] != 'E' {
		return 0, s, ""
	}
	negative, s := cutSign(s[1:])
	digits, rest := cutDigits(s)
	if digits == "" {
		return 0, s, notDecimal
	}
	tooFar := "has an exponent beyond " + strconv.Itoa(MaxAmountExponent)
	if len(digits) > MaxAmountDigits {
		return 0, s, tooFar
	}
	for i := range len(digits) {
		exponent = exponent*10 + int(digits[i]-'0')
		if exponent > MaxAmountExponent {
			return 0, s, tooFar
		}
	}
	if negative {
		exponent = -exponent
	}
	return exponent, rest, ""
}

// IsZero reports whether the amount is worth nothing, whatever its sign and
// however many zeros it was written with.
func (a Amount) IsZero() bool { return a.n == 0 }

// Canonical returns the amount in the one form that is hashed: the
// to-scientific-string of the General Decimal Arithmetic specification, which
// is what str(decimal.Decimal(s)) gives in Python. It keeps trailing zeros and
// a zero's sign, drops leading zeros and a plus, and changes to exponent form
// where the specification does (1E+3, 1E-7).
func (a Amount) Canonical() string {
	var room [MaxAmountBytes]byte
	return string(a.AppendCanonical(room[:0]))
}

// AppendCanonical appends what [Amount.Canonical] returns to dst.
func (a Amount) AppendCanonical(dst []byte) []byte {
	digits := a.digits()
	if a.neg {
		dst = append(dst, '-')
	}
	exp := int(a.exp)
	point := len(digits) + exp // digits left of the point
	adjusted := point - 1      // exponent when one digit stands left of it
	switch {
	case exp > 0 || adjusted < -6:
		return appendScientific(dst, digits, adjusted)
	case exp == 0:
		return append(dst, digits...)
	case point > 0:
		dst = append(dst, digits[:point]...)
		dst = append(dst, '.')
		return append(dst, digits[point:]...)
	}
	dst = append(dst, '0', '.')
	for range -point {
		dst = append(dst, '0')
	}
	return append(dst, digits...)
}

// appendScientific writes digits with one of them left of the point.
func appendScientific(dst, digits []byte, exponent int) []byte {
	dst = append(dst, digits[0])
	if len(digits) > 1 {
		dst = append(dst, '.')
		dst = append(dst, digits[1:]...)
	}
	dst = append(dst, 'E')
	if exponent >= 0 {
		dst = append(dst, '+')
	}
	return strconv.AppendInt(dst, int64(exponent), 10)
}

// digits returns the digits that the specification calls the coefficient.
func (a *Amount) digits() []byte {
	if a.n == 0 {
		return []byte{'0'}
	}
	return a.coef[:a.n]
}

// Decimal returns the amount as an exact decimal, for sums and comparisons. A
// decimal has no negative zero, so the sign of a zero is lost in it.
func (a Amount) Decimal() decimal.Decimal {
	var coefficient big.Int
	coefficient.SetString(string(a.digits()), 10) // cannot fail: digits only
	if a.neg {
		coefficient.Neg(&coefficient)
	}
	return decimal.NewFromBigInt(&coefficient, int32(a.exp))
}
