package queue

//go:generate go run gen_currency.go

// defaultMinorUnits holds where a message names no currency.
const defaultMinorUnits = 2

// MinorUnits returns how many decimal digits the currency's minor unit has
// (EUR 2, JPY 0, KWD 3, CLF 4), after ISO 4217 list one as published on
// [CurrencyEdition]. No currency ("") means two. It reports false for a code
// that is not in the list, that is not written in upper case, or that counts no
// units (XAU, XXX, XTS): an amount in such a code cannot be checked.
//
// The list, not CLDR: CLDR gives RSD, IQD and COP no digits, which is how
// people in those places write prices, not how their ledgers are kept.
func MinorUnits(currency string) (units int, ok bool) {
	if currency == "" {
		return defaultMinorUnits, true
	}
	units = listOne(currency)
	if units < 0 {
		return 0, false
	}
	return units, true
}
