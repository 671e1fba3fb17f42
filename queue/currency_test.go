package queue

import (
	"bytes"
	"encoding/csv"
	"os"
	"strconv"
	"strings"
	"testing"
)

// readListOne returns the minor units of every code in the committed list, ""
// for codes that count no units.
func readListOne(t *testing.T) (edition string, units map[string]string) {
	t.Helper()
	raw, err := os.ReadFile("../testdata/iso4217/list-one.csv")
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(raw), "\n")
	_, edition, _ = strings.Cut(first, "published ")
	r := csv.NewReader(bytes.NewReader(raw))
	r.Comment = '#'
	rows, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	units = make(map[string]string)
	for _, row := range rows[1:] {
		if _, twice := units[row[0]]; twice {
			t.Errorf("%s is in the list twice", row[0])
		}
		units[row[0]] = row[2]
	}
	if len(units) < 150 {
		t.Fatalf("%d codes in the list, want at least 150", len(units))
	}
	return edition, units
}

func TestMinorUnits(t *testing.T) {
	t.Run("every_three_letters_answer_as_the_list_does", func(t *testing.T) {
		edition, list := readListOne(t)
		if edition != CurrencyEdition {
			t.Errorf("the table is of %s, the list of %s: run go generate", CurrencyEdition, edition)
		}
		var code [3]byte
		for code[0] = 'A'; code[0] <= 'Z'; code[0]++ {
			for code[1] = 'A'; code[1] <= 'Z'; code[1]++ {
				for code[2] = 'A'; code[2] <= 'Z'; code[2]++ {
					got, ok := MinorUnits(string(code[:]))
					want, err := strconv.Atoi(list[string(code[:])])
					if ok != (err == nil) || got != want {
						t.Errorf("MinorUnits(%s) = %d, %v; the list says %q", code, got, ok, list[string(code[:])])
					}
				}
			}
		}
	})

	t.Run("ledgers_and_not_price_tags_decide", func(t *testing.T) {
		for code, want := range map[string]int{
			"": 2, "EUR": 2, "USD": 2, "RSD": 2, "COP": 2, "IQD": 3, "KWD": 3, "BHD": 3, "TND": 3,
			"JPY": 0, "ISK": 0, "KRW": 0, "UYI": 0, "CLP": 0, "CLF": 4, "UYW": 4, "HUF": 2, "XOF": 0, "XCD": 2,
		} {
			if got, ok := MinorUnits(code); !ok || got != want {
				t.Errorf("MinorUnits(%q) = %d, %v; want %d", code, got, ok, want)
			}
		}
	})

	t.Run("what_cannot_be_counted_is_refused", func(t *testing.T) {
		for _, code := range []string{
			"XAU", "XAG", "XXX", "XTS", "XDR", "XUA", "XSU", "XBA", "XPT",
			"eur", "Eur", "EU", "EURO", " EUR", "EUR ", "EUR\x00", "978", "ZZZ", "DEM", "HRK", "ＥＵＲ", "€",
		} {
			if got, ok := MinorUnits(code); ok || got != 0 {
				t.Errorf("MinorUnits(%q) = %d, %v; want it refused", code, got, ok)
			}
		}
	})
}
