package boltstore

import (
	"encoding/binary"
	"math/big"
	"math/bits"
	"slices"

	"breakwater/queue"
)

// currency is the code of a currency; zero for none. All that pass the monetary gate
// have three letters.
type currency [3]byte

// name is the currency as people see it.
func (c currency) name() string {
	if c == (currency{}) {
		return queue.NoCurrency
	}
	return string(c[:])
}

// worth is what a message's amount is worth without its sign, in minor units.
type worth struct {
	currency currency
	units    uint64
	wide     *big.Int // where 64 bits are not enough
	known    bool     // the amount could be read
}

// nothing reports whether it changes no sum.
func (w *worth) nothing() bool { return w.units == 0 && w.wide == nil }

// worthOf is the worth of a stored message.
func worthOf[T string | []byte](amount, code T) (w worth) {
	w.units, w.wide, w.known = queue.Worth(amount, code)
	copy(w.currency[:], code)
	return w
}

// worthIn is the worth of the message in a record, whose checksum need not have been
// looked at: of one that makes no sense nothing is known.
func worthIn(rec []byte) worth {
	const amountAt, currencyAt = 4, 5 // among the strings
	var amount, code []byte
	if len(rec) < recordHeader {
		return worth{}
	}
	rest := rec[recordHeader:]
	for i := range currencyAt + 1 {
		if len(rest) < 2 {
			return worth{}
		}
		n := int(binary.BigEndian.Uint16(rest))
		if rest = rest[2:]; len(rest) < n {
			return worth{}
		}
		switch i {
		case amountAt:
			amount = rest[:n]
		case currencyAt:
			code = rest[:n]
		}
		rest = rest[n:]
	}
	return worthOf(amount, code)
}

// minuteIn is the minute in which the message of a record was accepted first, or came
// as a line that a gate refused.
func minuteIn(rec []byte) int64 {
	if len(rec) < recordHeader {
		return 0
	}
	return queue.Minute(micros(binary.BigEndian.Uint64(rec[offAccepted:])))
}

// purse is the amounts of some messages of one key, summed up. Nearly always they are
// in one currency and fit 64 bits: then they need no memory of their own.
type purse struct {
	units    uint64
	currency currency
	more     *sums // nil: the two above are all
}

// add puts an amount in.
func (p *purse) add(w worth) {
	switch {
	case w.nothing():
		return
	case p.more != nil:
	case w.wide == nil && p.units+w.units >= p.units && (p.units == 0 || p.currency == w.currency):
		p.units, p.currency = p.units+w.units, w.currency
		return
	default:
		p.more = new(sums)
		p.more.change(worth{currency: p.currency, units: p.units}, 1)
		p.units = 0
	}
	p.more.change(w, 1)
}

// take takes an amount out that was put in.
func (p *purse) take(w worth) {
	switch {
	case w.nothing():
	case p.more == nil:
		p.units -= w.units // of the same currency
	default:
		if p.more.change(w, -1); p.more.empty() {
			p.more = nil
		}
	}
}

// sums are exact sums by currency, of which there are few. One that has come to zero
// stays: a currency that was there comes again.
type sums []sum

// sum is hi·2⁶⁴ + lo + wide: amounts of up to 64 bits are added to the first two.
type sum struct {
	currency currency
	hi, lo   uint64
	wide     *big.Int
}

// change adds an amount to the sum of its currency (sign 1), or takes it off (-1).
func (s *sums) change(w worth, sign int) {
	if !w.nothing() {
		s.of(w.currency).change(0, w.units, w.wide, sign)
	}
}

// change changes a sum part by part: what is taken off was added to the same part.
func (s *sum) change(hi, lo uint64, wide *big.Int, sign int) {
	var carry uint64
	if sign > 0 {
		s.lo, carry = bits.Add64(s.lo, lo, 0)
		s.hi, _ = bits.Add64(s.hi, hi, carry)
	} else {
		s.lo, carry = bits.Sub64(s.lo, lo, 0)
		s.hi, _ = bits.Sub64(s.hi, hi, carry)
	}
	switch {
	case wide == nil:
	case s.wide == nil:
		s.wide = new(big.Int).Set(wide) // the first that is added
	case sign > 0:
		s.wide.Add(s.wide, wide)
	default:
		s.wide.Sub(s.wide, wide)
	}
}

// of returns the sum of a currency, made if it is new.
func (s *sums) of(c currency) *sum {
	for i := range *s {
		if (*s)[i].currency == c {
			return &(*s)[i]
		}
	}
	*s = append(*s, sum{currency: c})
	return &(*s)[len(*s)-1]
}

// all adds or takes off what is in a purse.
func (s *sums) all(p *purse, sign int) {
	if p.more == nil {
		s.change(worth{currency: p.currency, units: p.units}, sign)
		return
	}
	s.each(*p.more, sign)
}

// each adds or takes off other sums.
func (s *sums) each(others sums, sign int) {
	for i := range others {
		o := &others[i]
		s.of(o.currency).change(o.hi, o.lo, o.wide, sign)
	}
}

// total is the whole of a sum, in memory of its own.
func (s *sum) total() *big.Int {
	t := new(big.Int).SetUint64(s.hi)
	t.Lsh(t, 64).Add(t, new(big.Int).SetUint64(s.lo))
	if s.wide != nil {
		t.Add(t, s.wide)
	}
	return t
}

// empty reports whether all sums are zero.
func (s sums) empty() bool {
	for i := range s {
		if s[i].total().Sign() != 0 {
			return false
		}
	}
	return true
}

// atRisk is what sums say, by currency; those of open messages are in two parts.
func atRisk(open, scheduled, held, dead sums) (out []queue.AtRisk) {
	var parts [3]sums
	for i, from := range [...][]sums{{open, scheduled}, {held}, {dead}} {
		for _, s := range from {
			parts[i].each(s, 1)
		}
	}
	var codes []currency
	for _, p := range parts {
		for i := range p {
			if p[i].total().Sign() != 0 && !slices.Contains(codes, p[i].currency) {
				codes = append(codes, p[i].currency)
			}
		}
	}
	slices.SortFunc(codes, func(a, b currency) int { return slices.Compare(a[:], b[:]) })
	for _, c := range codes {
		text := func(s *sums) string { return queue.WorthText(s.of(c).total(), c.name()) }
		out = append(out, queue.AtRisk{Currency: c.name(), Open: text(&parts[0]), Held: text(&parts[1]), Dead: text(&parts[2])})
	}
	return out
}
