package queue

import (
	"math/big"
	"strings"
	"time"
)

// NoCurrency is the currency under which amounts are summed up whose message names
// none. In lower case it can be no code of ISO 4217.
const NoCurrency = "none"

// AtRisk is the money that waits in one currency: sums of the amounts of messages,
// each without its sign, for two entries that differ by 10 and by −10 are 20 that
// somebody has to look at. The sums are exact decimals with as many fraction digits
// as the currency has.
type AtRisk struct {
	Currency string // ISO 4217, or NoCurrency
	Open     string // of all open messages: ready, scheduled, leased and held
	Held     string // of them: those whose key waits
	Dead     string // of dead letters, as far as their amount can be read
}

// Worth returns what an amount is worth without its sign, in minor units of its
// currency: in 64 bits, or in wide where they are not enough. ok is false for a text
// that the monetary gate would refuse.
func Worth[T string | []byte](amount, currency T) (units uint64, wide *big.Int, ok bool) {
	minor, known := MinorUnits(string(currency))
	if !known {
		return 0, nil, false
	}
	if units, ok := plainWorth(amount, minor); ok {
		return units, nil, true
	}
	a, reason := parseAmount(string(amount))
	if reason != "" || !a.fits(minor) {
		return 0, nil, false
	}
	units, wide = a.worth(minor)
	return units, wide, true
}

// plainWorth is Worth of an amount as nearly all are written, "-1042.37": a start
// reads the amounts of a million messages. ok is false for any other form.
func plainWorth[T string | []byte](amount T, minor int) (units uint64, ok bool) {
	at := 0
	if len(amount) > 0 && (amount[0] == '-' || amount[0] == '+') {
		at = 1
	}
	first, point := at, -1
	for ; at < len(amount); at++ {
		switch c := amount[at]; {
		case '0' <= c && c <= '9':
			units = units*10 + uint64(c-'0')
		case c == '.' && point < 0 && at > first:
			point = at
		default:
			return 0, false
		}
	}
	fraction := 0
	if point >= 0 {
		fraction = at - point - 1
	}
	if at == first || point == at-1 || fraction > minor || at-first+minor > maxDigits64 {
		return 0, false
	}
	for ; fraction < minor; fraction++ {
		units *= 10
	}
	return units, true
}

// worth is the amount in units of which the currency's main unit has ten to the power
// of minor. What it cuts off are zeros, or the amount would not fit.
func (a *Amount) worth(minor int) (units uint64, wide *big.Int) {
	digits, zeros := a.coef[:a.n], int(a.exp)+minor
	if zeros < 0 {
		digits, zeros = digits[:max(0, len(digits)+zeros)], 0
	}
	if len(digits) == 0 {
		return 0, nil
	}
	if len(digits)+zeros > maxDigits64 {
		wide = new(big.Int)
		wide.SetString(string(digits)+strings.Repeat("0", zeros), 10) // cannot fail: digits only
		return 0, wide
	}
	for _, d := range digits {
		units = units*10 + uint64(d-'0')
	}
	for range zeros {
		units *= 10
	}
	return units, nil
}

// maxDigits64 is how many decimal digits always fit 64 bits.
const maxDigits64 = 19

// WorthText returns so many minor units of a currency as a decimal: "1042.37". The
// currency is one that [MinorUnits] knows, or NoCurrency.
func WorthText(units *big.Int, currency string) string {
	minor := defaultMinorUnits
	if currency != NoCurrency {
		minor, _ = MinorUnits(currency)
	}
	text := units.String()
	if minor == 0 {
		return text
	}
	if len(text) <= minor {
		text = strings.Repeat("0", minor+1-len(text)) + text
	}
	return text[:len(text)-minor] + "." + text[len(text)-minor:]
}

// Ages counts messages by their age, which is the time since they were first
// accepted (for a line that a gate refused: since it came). No retry, edit or replay
// makes a message younger. Ages are judged in whole minutes of the wall clock: from
// the minute of acceptance to that of the question.
type Ages struct {
	Under24h int64
	To3d     int64 // from 24 hours on
	To7d     int64 // from three days on
	Over7d   int64 // from seven days on
}

// Count adds n messages that were accepted in a minute since 1970.
func (a *Ages) Count(n, minute int64, now time.Time) {
	const day = 24 * 60
	switch age := Minute(now) - minute; {
	case age < day:
		a.Under24h += n
	case age < 3*day:
		a.To3d += n
	case age < 7*day:
		a.To7d += n
	default:
		a.Over7d += n
	}
}

// Minute is the minute since 1970 that a moment lies in.
func Minute(t time.Time) int64 {
	s := t.Unix()
	if s < 0 {
		s -= 59 // towards the past, as after 1970
	}
	return s / 60
}
