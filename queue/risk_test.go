package queue

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestWorth compares a sum's integer with the decimal that the amount is.
func TestWorth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(
			rapid.StringMatching(`[-+]?[0-9]{1,20}(\.[0-9]{1,5})?`),
			rapid.StringMatching(`[-+]?[0-9]{1,19}(\.[0-9]{0,18})?([eE][-+]?[0-9]{1,2})?`),
			rapid.StringMatching(`[-+.eE0-9 ]{0,8}`),
		).Draw(t, "amount")
		currency := rapid.SampledFrom([]string{"", "EUR", "JPY", "KWD", "CLF", "XXX", "eur"}).Draw(t, "currency")
		units, wide, ok := Worth(text, currency)
		a, err := CheckAmount(text, currency)
		if ok != (err == nil) {
			t.Fatalf("worth known: %v, gate: %v", ok, err)
		}
		if !ok {
			return
		}
		if wide == nil {
			wide = new(big.Int).SetUint64(units)
		}
		minor, _ := MinorUnits(currency)
		want := a.Decimal().Abs().Shift(int32(minor)) // an integer, or the gate would have refused it
		if got := wide.String(); got != want.String() {
			t.Fatalf("%q %s is %s minor units, got %s", text, currency, want, got)
		}
		name := currency
		if name == "" {
			name = NoCurrency
		}
		if got, want := WorthText(wide, name), a.Decimal().Abs().StringFixed(int32(minor)); got != want {
			t.Fatalf("%q %s is written %s, want %s", text, currency, got, want)
		}
	})
}

func TestWorthText(t *testing.T) {
	for _, c := range []struct {
		units    int64
		currency string
		want     string
	}{
		{0, "EUR", "0.00"}, {7, "EUR", "0.07"}, {104237, "EUR", "1042.37"}, {7, "JPY", "7"}, {7, "KWD", "0.007"}, {12340, "CLF", "1.2340"},
		{150, NoCurrency, "1.50"},
	} {
		if got := WorthText(big.NewInt(c.units), c.currency); got != c.want {
			t.Errorf("%d of %s is %s, want %s", c.units, c.currency, got, c.want)
		}
	}
}

func TestMinute(t *testing.T) {
	for _, c := range []struct {
		unix, want int64
	}{{0, 0}, {59, 0}, {60, 1}, {-1, -1}, {-60, -1}, {-61, -2}} {
		if got := Minute(time.Unix(c.unix, 0)); got != c.want {
			t.Errorf("second %d lies in minute %d, got %d", c.unix, c.want, got)
		}
	}
}
