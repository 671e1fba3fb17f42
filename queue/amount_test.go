package queue

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/shopspring/decimal"
	"pgregory.net/rapid"
)

// wantGate fails the test unless err is a gate's, about the given member.
func wantGate(t *testing.T, err error, gate Gate, member string) *GateError {
	t.Helper()
	var failed *GateError
	if !errors.As(err, &failed) {
		t.Fatalf("error is %v, want a %s gate's", err, gate)
	}
	if failed.Gate != gate || failed.Field != member {
		t.Errorf("%s gate, field %q (%v); want %s gate, field %q", failed.Gate, failed.Field, failed, gate, member)
	}
	if failed.Code() != CodePoison {
		t.Errorf("code %s, want %s", failed.Code(), CodePoison)
	}
	return failed
}

func TestCheckAmount(t *testing.T) {
	t.Run("takes_what_fits_the_currency", func(t *testing.T) {
		for _, c := range []struct{ amount, currency string }{
			{"0", ""}, {"-0", ""}, {"-0.00", "EUR"}, {"+10", "EUR"}, {"010.00", "EUR"}, {"10.0", "EUR"}, {"10.00", "EUR"},
			{"-1042.37", ""}, {"1e3", "EUR"}, {"1E+3", "JPY"}, {"1042", "JPY"}, {"1042.000", "JPY"}, {"1.5e1", "JPY"},
			{"10e-1", "JPY"}, {"0e-38", "JPY"}, {"0.000e-30", "JPY"}, {"-0e38", "JPY"}, {"100e-2", "JPY"},
			{"1.234", "KWD"}, {"1.2345", "CLF"}, {"1.2340", "KWD"}, {"1.23400", "KWD"}, {"0.0001", "UYW"},
			{strings.Repeat("9", 38), "EUR"}, {strings.Repeat("0", 38), "EUR"}, {strings.Repeat("9", 36) + ".99", "EUR"},
			{"1." + strings.Repeat("0", 37), "JPY"}, {"1e38", "EUR"}, {"1e+038", "EUR"}, {"1e-00", "EUR"},
			{"1e" + strings.Repeat("0", 37) + "2", "EUR"}, {strings.Repeat("0", 37) + "5", "EUR"},
		} {
			if _, err := CheckAmount(c.amount, c.currency); err != nil {
				t.Errorf("%s in %q: %v", c.amount, c.currency, err)
			}
		}
	})

	t.Run("refuses_digits_beyond_the_minor_unit", func(t *testing.T) {
		for _, c := range []struct{ amount, currency string }{
			{"0.001", ""}, {"0.005", "EUR"}, {"-0.005", "EUR"}, {"1.005", "EUR"}, {"10.999", "EUR"}, {"0.5", "JPY"}, {"-2.5", "JPY"},
			{"1e-3", "EUR"}, {"1e-38", "EUR"}, {"15e-1", "JPY"}, {"1.2345", "KWD"}, {"1.23456", "CLF"}, {"12.345e1", "JPY"},
			{"0." + strings.Repeat("0", 36) + "1", "EUR"}, {"1." + strings.Repeat("0", 36) + "1", "EUR"},
		} {
			_, err := CheckAmount(c.amount, c.currency)
			wantGate(t, err, Monetary, "variance_amount")
		}
	})

	t.Run("refuses_what_the_grammar_does_not_know", func(t *testing.T) {
		for _, amount := range []string{
			"", "+", "-", ".", "e", "e5", ".5", "5.", "-.5", "5.e1", "1.2.3", "1..2", "--1", "+-1", "1-", "1+", "1e", "1e+", "1e-", "1e1.5",
			"1e5e5", "1E+-3", "abc", "NaN", "nan", "sNaN", "Inf", "-Infinity", "∞", "0x10", "1_000", "1,000", "1,50", "1 000", " 1", "1 ", "1\n",
			"1\x00", "−5", "١٢", "１", "1٫5", "½", "$5", "5EUR", "1/2", "(5)", "1e٣", "\ufeff1", "1d5", "1f",
		} {
			_, err := CheckAmount(amount, "EUR")
			wantGate(t, err, Monetary, "variance_amount")
		}
	})

	t.Run("bombs_are_refused_by_length", func(t *testing.T) {
		for name, amount := range map[string]string{
			"exponent":           "1e1000000000",
			"negative exponent":  "1e-1000000000",
			"overflowing":        "1e99999999999999999999999999",
			"printable exponent": "1e10000",
			"just too big":       "1e39",
			"just too small":     "1e-39",
			"39 digits":          strings.Repeat("1", 39),
			"39 zeros":           strings.Repeat("0", 39),
			"39 over the point":  strings.Repeat("1", 20) + "." + strings.Repeat("1", 19),
			"a million digits":   strings.Repeat("9", 1_000_000),
			"20,000 decimals":    "0." + strings.Repeat("3", 20_000),
			"a million zeros":    strings.Repeat("0", 1_000_000),
			"39 in the exponent": "1e" + strings.Repeat("0", 38) + "2",
			"exponent of zeros":  "1e" + strings.Repeat("0", 1_000_000),
		} {
			_, err := CheckAmount(amount, "EUR")
			failed := wantGate(t, err, Monetary, "variance_amount")
			if len(failed.Error()) > 200 {
				t.Errorf("%s: the error has %d bytes", name, len(failed.Error()))
			}
		}
	})

	t.Run("names_the_currency_when_that_is_at_fault", func(t *testing.T) {
		for _, currency := range []string{"eur", "XAU", "XXX", "EURO", "ZZZ", "€", "EUR "} {
			_, err := CheckAmount("1.00", currency)
			wantGate(t, err, Monetary, "currency")
		}
	})
}

func TestAmount(t *testing.T) {
	t.Run("the_zero_value_is_zero", func(t *testing.T) {
		var a Amount
		if !a.IsZero() || a.Canonical() != "0" || !a.Decimal().IsZero() {
			t.Errorf("IsZero %v, Canonical %s, Decimal %s", a.IsZero(), a.Canonical(), a.Decimal())
		}
	})

	t.Run("what_was_written_is_told_apart_though_worth_the_same", func(t *testing.T) {
		short, _ := parseAmount("10.0")
		long, _ := parseAmount("10.00")
		if short == long {
			t.Error("10.0 and 10.00 are equal as amounts")
		}
		if !short.Decimal().Equal(long.Decimal()) {
			t.Error("10.0 and 10.00 differ in worth")
		}
		padded, _ := parseAmount("+010.00")
		if padded != long {
			t.Error("a leading zero or a plus makes a difference")
		}
	})

	t.Run("a_zero_keeps_its_sign_in_what_is_hashed", func(t *testing.T) {
		a, _ := parseAmount("-0.00")
		if a.Canonical() != "-0.00" || !a.IsZero() {
			t.Errorf("Canonical %s, IsZero %v", a.Canonical(), a.IsZero())
		}
	})

	t.Run("the_longest_canonical_form_fits_its_room", func(t *testing.T) {
		for _, s := range []string{
			"-" + strings.Repeat("9", 38) + "e38", "-0." + strings.Repeat("9", 37) + "e-38", "-0.000009" + strings.Repeat("9", 31),
		} {
			a, reason := parseAmount(s)
			if reason != "" {
				t.Fatalf("%s %s", s, reason)
			}
			if got := a.Canonical(); len(got) > MaxAmountBytes {
				t.Errorf("%s has %d bytes", got, len(got))
			}
		}
	})

	t.Run("sums_are_exact", func(t *testing.T) {
		sum := decimal.Zero
		for range 1000 {
			a, err := CheckAmount("0.10", "EUR")
			if err != nil {
				t.Fatal(err)
			}
			sum = sum.Add(a.Decimal())
		}
		if sum.String() != "100" {
			t.Errorf("a thousand times 0.10 is %s", sum)
		}
	})
}

func TestRouteFor(t *testing.T) {
	for amount, want := range map[string]Route{
		"0": AutoResolve, "-0.00": AutoResolve, "0e38": AutoResolve, "0.000000": AutoResolve,
		"0.01": RouteReview, "-0.01": RouteReview, "1e38": RouteReview, "1e-2": RouteReview,
	} {
		a, err := CheckAmount(amount, "EUR")
		if err != nil {
			t.Fatal(err)
		}
		if got := RouteFor(a); got != want {
			t.Errorf("RouteFor(%s) = %s, want %s", amount, got, want)
		}
	}
}

// amountText draws text that is nearly always an amount within the grammar.
func amountText(t *rapid.T) string {
	return rapid.StringMatching(`[+-]?[0-9]{1,12}(\.[0-9]{1,8}0{0,6})?([eE][+-]?[0-9]{1,2})?`).Draw(t, "amount")
}

// currencyCode draws a currency of every number of minor units there is.
func currencyCode(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "EUR", "JPY", "KWD", "CLF"}).Draw(t, "currency")
}

func TestGateTwoLeavesNothingToRound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, currency := amountText(t), currencyCode(t)
		a, reason := parseAmount(text)
		if reason != "" {
			t.Skip(reason)
		}
		minor, _ := MinorUnits(currency)
		exact := a.Decimal()
		_, err := CheckAmount(text, currency)
		if fits := exact.Truncate(int32(minor)).Equal(exact); fits != (err == nil) {
			t.Fatalf("%s in %q: error %v, though fitting is %v", text, currency, err, fits)
		}
		if err != nil {
			return
		}
		// decimal's Round is half away from zero, the mission's rule.
		rounded := exact.Round(int32(minor))
		if !rounded.Equal(exact) {
			t.Fatalf("%s in %q rounds to %s", text, currency, rounded)
		}
		if want := map[bool]Route{true: AutoResolve, false: RouteReview}[rounded.IsZero()]; RouteFor(a) != want {
			t.Fatalf("%s in %q goes to %s, want %s", text, currency, RouteFor(a), want)
		}
	})
}

func TestCanonicalFormIsStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, reason := parseAmount(amountText(t))
		if reason != "" {
			t.Skip(reason)
		}
		again, reason := parseAmount(a.Canonical())
		if reason != "" {
			t.Skip("the form's exponent is outside the grammar's limit")
		}
		if again != a || again.Canonical() != a.Canonical() {
			t.Fatalf("%s reads back as %s", a.Canonical(), again.Canonical())
		}
	})
}

// amountGrammar is the contract's grammar, written down a second time.
var amountGrammar = regexp.MustCompile(`^[+-]?([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?)0*([0-9]+))?$`)

// grammarTakes says by regular expression what parseAmount says by scanning.
func grammarTakes(s string) bool {
	parts := amountGrammar.FindStringSubmatch(s)
	if parts == nil || len(parts[1])+len(parts[2]) > MaxAmountDigits {
		return false
	}
	exponent := parts[4]
	if at := strings.IndexAny(s, "eE"); at >= 0 && len(strings.TrimLeft(s[at+1:], "+-")) > MaxAmountDigits {
		return false
	}
	return len(exponent) < 2 || len(exponent) == 2 && exponent <= "38"
}

func FuzzAmount(f *testing.F) {
	for _, s := range []string{"0", "-0.00", "+10", "1E+3", "-1042.37", ".5", "5.", "1e39", "1e-38", "NaN", "1_0", "−5", "00.0010e-0007"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, reason := parseAmount(s)
		if takes := grammarTakes(s); takes != (reason == "") {
			t.Fatalf("%q: reason %q, though the grammar takes it: %v", s, reason, takes)
		}
		if reason != "" {
			return
		}
		for _, text := range []string{s, a.Canonical()} {
			want, err := decimal.NewFromString(text)
			if err != nil {
				t.Fatalf("decimal does not take %q: %v", text, err)
			}
			if !a.Decimal().Equal(want) {
				t.Fatalf("%q is worth %s, want %s", text, a.Decimal(), want)
			}
			if a.IsZero() != want.IsZero() {
				t.Fatalf("%q: IsZero is %v", text, a.IsZero())
			}
		}
	})
}
