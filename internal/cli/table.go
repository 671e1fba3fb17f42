package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"breakwater/internal/control/api"
)

// table sets rows in columns, two blanks apart; the last column is not padded. Cells
// are escaped: most of them came from outside.
func table(rows [][]string) []byte {
	var widths []int
	for _, row := range rows {
		for i := range row {
			row[i] = oneLine(row[i])
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	var b []byte
	for _, row := range rows {
		start := len(b)
		for i, cell := range row {
			b = append(b, cell...)
			if i < len(row)-1 {
				b = append(b, strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2)...)
			}
		}
		b = append(trimRight(b, start), '\n')
	}
	return b
}

// listPiece is how many rows get their columns together: what has been read is shown
// before the whole list is.
const listPiece = 1000

// listing is a table of any number of rows; each piece has columns of its own width.
type listing struct {
	out  io.Writer
	rows [][]string // not printed yet, the heads among them
	n    int        // rows so far, without the heads
}

func (e *env) listing(heads ...string) *listing {
	return &listing{out: e.Stdout, rows: [][]string{heads}}
}

func (l *listing) add(row ...string) error {
	l.n++
	if l.rows = append(l.rows, row); len(l.rows) <= listPiece {
		return nil
	}
	return l.print()
}

// print prints what was added since the last time.
func (l *listing) print() error {
	text := table(l.rows)
	l.rows = l.rows[:0]
	return write(l.out, text)
}

// end prints what is left, or in the place of a table without rows what there is none
// of: every list says that in the same way.
func (l *listing) end(none string) error {
	if l.n == 0 {
		return write(l.out, []byte(oneLine(none)+"\n"))
	}
	return l.print()
}

// cut prints what was read before err ended a list: it is true all the same.
func (l *listing) cut(err error) error {
	if l.n > 0 && !errors.Is(err, errPipe) {
		_ = l.print() // the list has failed anyhow, and says so
	}
	return err
}

// trimRight takes blanks off the end of what follows start.
func trimRight(b []byte, start int) []byte {
	for len(b) > start && b[len(b)-1] == ' ' {
		b = b[:len(b)-1]
	}
	return b
}

// short cuts a text for a column; the whole of it is a command away.
func short(s string, runes int) string {
	if utf8.RuneCountInString(s) <= runes {
		return s
	}
	return string([]rune(s)[:runes-1]) + "…"
}

// moment is a time in UTC, to the second; "" for none.
func moment(t api.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05Z")
}

// bytesText is a size as people say it, with one digit after the point, cut off.
func bytesText(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	unit := 0
	for whole := n; whole >= 1<<20 && unit < 3; whole >>= 10 {
		unit++
	}
	tenths := n >> (10 * unit) * 10 >> 10
	return fmt.Sprintf("%d.%d %s", tenths/10, tenths%10, [...]string{"KiB", "MiB", "GiB", "TiB"}[unit])
}

// number is a count with its thousands apart.
func number[N int64 | uint64 | int](n N) string {
	s := fmt.Sprint(n)
	for at := len(s) - 3; at > 0 && s[at-1] != '-'; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}
