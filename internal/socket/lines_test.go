package socket

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"breakwater/queue"
)

// seen is a line as a test wants to compare it.
type seen struct {
	Number       uint64
	Text         string
	Unterminated bool
	Length       uint64 // over-long ones only
	Sum          string
}

func see(l line) seen {
	s := seen{Number: l.number, Text: string(l.bytes), Unterminated: l.unterminated}
	if l.long != nil {
		s.Length, s.Sum = l.long.length, l.long.sum.String()
	}
	return s
}

// readAll reads a stream to its end and returns its lines and how many it had.
func readAll(t testing.TB, src io.Reader, maxLine, maxLines int) ([]seen, uint64) {
	t.Helper()
	r := newLineReader(src, new(bufferPool), maxLine, maxLines)
	defer r.close()
	var all []seen
	for {
		b, err := r.next()
		if errors.Is(err, io.EOF) {
			return all, r.number
		}
		if err != nil {
			t.Fatalf("next: %v", err)
		}
		if len(b.lines) == 0 || len(b.lines) > maxLines {
			t.Fatalf("a batch of %d lines, limit %d", len(b.lines), maxLines)
		}
		for _, l := range b.lines {
			all = append(all, see(l))
		}
		b.release()
	}
}

// model says what the lines of a stream are, from the stream as a whole.
func model(stream []byte, maxLine int) (all []seen, count uint64) {
	stream = bytes.TrimPrefix(stream, []byte(byteOrderMark))
	parts := bytes.Split(stream, []byte{'\n'})
	for i, p := range parts {
		last := i == len(parts)-1
		if last && len(p) == 0 {
			break
		}
		count++
		if !last {
			p = bytes.TrimSuffix(p, []byte{'\r'})
		}
		s := seen{Number: count, Text: string(p), Unterminated: last}
		switch {
		case len(p) > maxLine:
			s.Text = string(p[:min(len(p), longLineHead)])
			s.Length = uint64(len(p))
			s.Sum = queue.Hash(sha256.Sum256(p)).String()
		case len(bytes.Trim(p, " \t\r\v\f")) == 0:
			continue
		}
		all = append(all, s)
	}
	return all, count
}

// chunked hands a stream out in pieces of the given sizes, over and over.
type chunked struct {
	data  []byte
	sizes []int
	turn  int
}

func (c *chunked) Read(p []byte) (int, error) {
	if len(c.data) == 0 {
		return 0, io.EOF
	}
	n := min(len(p), len(c.data), c.sizes[c.turn%len(c.sizes)])
	c.turn++
	copy(p, c.data[:n])
	c.data = c.data[n:]
	return n, nil
}

func TestLines(t *testing.T) {
	const limit = 16
	full := strings.Repeat("x", limit)
	long := seen{Text: full + "x", Length: limit + 1, Sum: fmt.Sprintf("%x", sha256.Sum256([]byte(full+"x")))}
	withNumber := func(s seen, n uint64, unterminated bool) seen {
		s.Number, s.Unterminated = n, unterminated
		return s
	}
	tests := []struct {
		name, stream string
		want         []seen
		count        uint64
	}{
		{"an empty stream has no lines", "", nil, 0},
		{"one line", "a\n", []seen{{Number: 1, Text: "a"}}, 1},
		{"a blank line counts and yields nothing", "\n \t\r\n\v\f\na\n", []seen{{Number: 4, Text: "a"}}, 4},
		{"a blank tail counts and yields nothing", "a\n  ", []seen{{Number: 1, Text: "a"}}, 2},
		{"one CR before LF is not part of the line", "a\r\nb\r\r\n", []seen{{Number: 1, Text: "a"}, {Number: 2, Text: "b\r"}}, 2},
		{"a lone CR is part of the line", "a\rb\n", []seen{{Number: 1, Text: "a\rb"}}, 1},
		{"a last line without LF is marked", "a\nb", []seen{{Number: 1, Text: "a"}, {Number: 2, Text: "b", Unterminated: true}}, 2},
		{"a CR at the very end is part of the tail", "a\r", []seen{{Number: 1, Text: "a\r", Unterminated: true}}, 1},
		{"a byte order mark at the start is skipped", "\ufeffa\n", []seen{{Number: 1, Text: "a"}}, 1},
		{"only one is", "\ufeff\ufeffa\n", []seen{{Number: 1, Text: "\ufeffa"}}, 1},
		{"and only at the start", "a\n\ufeffb\n", []seen{{Number: 1, Text: "a"}, {Number: 2, Text: "\ufeffb"}}, 2},
		{"half a byte order mark is a line", "\xef\xbb", []seen{{Number: 1, Text: "\xef\xbb", Unterminated: true}}, 1},
		{"a byte order mark alone is no line", "\ufeff", nil, 0},
		{"it does not count for the limit", "\ufeff" + full + "\n", []seen{{Number: 1, Text: full}}, 1},
		{"a line of exactly the limit passes", full + "\n", []seen{{Number: 1, Text: full}}, 1},
		{"neither CR nor LF count for the limit", full + "\r\n", []seen{{Number: 1, Text: full}}, 1},
		{"a tail of exactly the limit passes", full, []seen{{Number: 1, Text: full, Unterminated: true}}, 1},
		{"one byte over is over-long, and the stream goes on", full + "x\nb\n", []seen{withNumber(long, 1, false), {Number: 2, Text: "b"}}, 2},
		{"its CR LF is not hashed", full + "x\r\n", []seen{withNumber(long, 1, false)}, 1},
		{"an over-long tail is both", full + "x", []seen{withNumber(long, 1, true)}, 1},
	}
	sources := map[string]func(io.Reader) io.Reader{
		"at once":       func(r io.Reader) io.Reader { return r },
		"byte by byte":  iotest.OneByteReader,
		"end with data": iotest.DataErrReader,
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for how, source := range sources {
				got, count := readAll(t, source(strings.NewReader(tt.stream)), limit, 3)
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", how, diff)
				}
				if count != tt.count {
					t.Errorf("%s: counted %d lines, want %d", how, count, tt.count)
				}
			}
		})
	}
}

// Whatever the stream, however it arrives and whatever the limits: the lines are
// those that splitting the whole stream at LF gives.
func TestLinesAgreeWithTheModel(t *testing.T) {
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{"\n", "\r\n", "\r", " ", "\t", byteOrderMark, "{\"a\":1}\n"}),
		rapid.StringMatching(`[a-z]{0,40}`),
		rapid.Map(rapid.IntRange(0, 20000), func(n int) string { return strings.Repeat("y", n) }),
	)
	rapid.Check(t, func(t *rapid.T) {
		stream := []byte(strings.Join(rapid.SliceOfN(piece, 0, 60).Draw(t, "pieces"), ""))
		maxLine := rapid.SampledFrom([]int{1, 2, 10, 4096, 4097, 10000, 65536}).Draw(t, "max line")
		maxLines := rapid.IntRange(1, 20).Draw(t, "max lines")
		sizes := rapid.SliceOfN(rapid.IntRange(1, 9000), 1, 5).Draw(t, "sizes")
		compareWithModel(t, stream, maxLine, maxLines, sizes)
	})
}

type fataler interface {
	Fatalf(string, ...any)
	Helper()
}

func compareWithModel(t fataler, stream []byte, maxLine, maxLines int, sizes []int) {
	t.Helper()
	want, wantCount := model(stream, maxLine)
	r := newLineReader(&chunked{data: stream, sizes: sizes}, new(bufferPool), maxLine, maxLines)
	var got []seen
	// Batches are kept until the end: a line must not change when more is read.
	var held []*lineBatch
	for {
		b, err := r.next()
		if err != nil {
			break
		}
		held = append(held, b)
	}
	for _, b := range held {
		for _, l := range b.lines {
			got = append(got, see(l))
		}
		b.release()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("max line %d (-want +got):\n%s", maxLine, diff)
	}
	if r.number != wantCount {
		t.Fatalf("counted %d lines, want %d", r.number, wantCount)
	}
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("\ufeffa\r\n\n{\"a\":1}\nlast"), uint16(8), uint8(3), uint8(5))
	f.Add([]byte(strings.Repeat("x", 9000)+"\r\ny\r"), uint16(4096), uint8(1), uint8(200))
	f.Fuzz(func(t *testing.T, stream []byte, maxLine uint16, maxLines, size uint8) {
		compareWithModel(t, stream, int(maxLine)+1, int(maxLines)+1, []int{int(size) + 1, 7})
	})
}

// A deadline, or any other error but the end, loses nothing: half a line that was
// read before it is still there afterwards.
func TestInterruptedReadLosesNothing(t *testing.T) {
	src := io.MultiReader(
		strings.NewReader("one\ntw"),
		iotest.ErrReader(os.ErrDeadlineExceeded),
	)
	r := newLineReader(&swapReader{first: src, then: strings.NewReader("o\n")}, new(bufferPool), 100, 10)
	b, err := r.next()
	if err != nil || len(b.lines) != 1 || string(b.lines[0].bytes) != "one" {
		t.Fatalf("first batch %v, %v", b, err)
	}
	if _, err = r.next(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("got %v, want the deadline", err)
	}
	if b, err = r.next(); err != nil || string(b.lines[0].bytes) != "two" || b.lines[0].unterminated {
		t.Fatalf("after the deadline: %v, %v", b, err)
	}
}

// swapReader goes over to its second source after the first error of the first.
type swapReader struct{ first, then io.Reader }

func (s *swapReader) Read(p []byte) (int, error) {
	n, err := s.first.Read(p)
	if err != nil {
		s.first = s.then
	}
	return n, err
}

func TestResetPeerHasEndedItsStream(t *testing.T) {
	src := io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(&os.SyscallError{Syscall: "read", Err: syscall.ECONNRESET}))
	got, _ := readAll(t, src, 100, 10)
	want := []seen{{Number: 1, Text: "a"}, {Number: 2, Text: "b", Unterminated: true}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSourceThatGivesNothingIsAnError(t *testing.T) {
	r := newLineReader(readerFunc(func([]byte) (int, error) { return 0, nil }), new(bufferPool), 100, 10)
	if _, err := r.next(); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("got %v, want %v", err, io.ErrNoProgress)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// repeated is n bytes of c, made up as they are read.
func repeated(c byte, n int64) io.Reader {
	return io.LimitReader(readerFunc(func(p []byte) (int, error) {
		for i := range p {
			p[i] = c
		}
		return len(p), nil
	}), n)
}

// B22: a line without end costs its beginning, not its length.
func TestHugeLineLeavesMemoryFlat(t *testing.T) {
	const huge, limit = 256 << 20, 1 << 18
	stream := io.MultiReader(strings.NewReader("good\n"), repeated('x', huge), strings.NewReader("\nalso good\n"))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got, count := readAll(t, stream, limit, 1024)
	runtime.ReadMemStats(&after)

	if len(got) != 3 || count != 3 || got[0].Text != "good" || got[2].Text != "also good" {
		t.Fatalf("got %d lines of %d", len(got), count)
	}
	if got[1].Length != huge || len(got[1].Text) != longLineHead {
		t.Errorf("length %d, kept %d", got[1].Length, len(got[1].Text))
	}
	// All that was ever allocated, freed or not: the buffers on the way to the limit.
	if total := after.TotalAlloc - before.TotalAlloc; total > 4*limit {
		t.Errorf("allocated %d bytes for a limit of %d", total, limit)
	}
}

// A connection that sends little holds little, also after a burst.
func TestQuietStreamHoldsASmallBuffer(t *testing.T) {
	burst := strings.Repeat("0123456789abcdef\n", 30000)
	quiet := strings.Repeat("q\n", 3)
	r := newLineReader(io.MultiReader(strings.NewReader(burst), iotest.OneByteReader(strings.NewReader(quiet))), new(bufferPool), 1<<18, 1<<20)
	largest, last := int64(0), int64(0)
	for {
		b, err := r.next()
		if err != nil {
			break
		}
		last = b.size()
		largest = max(largest, last)
		b.release()
	}
	if largest != chunkBuffer || last != idleBuffer {
		t.Errorf("largest batch holds %d, last one %d; want %d and %d", largest, last, chunkBuffer, idleBuffer)
	}
}

func BenchmarkLines(b *testing.B) {
	text := []byte(`{"idempotency_key":"` + strings.Repeat("k", 300) + `"}` + "\n")
	for _, maxLines := range []int{1, 64, 1024} {
		b.Run(fmt.Sprintf("batch=%d", maxLines), func(b *testing.B) {
			src := &endless{text: text, left: b.N}
			r := newLineReader(src, new(bufferPool), 1<<18, maxLines)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			lines := 0
			for {
				batch, err := r.next()
				if err != nil {
					break
				}
				lines += len(batch.lines)
				batch.release()
			}
			if lines != b.N {
				b.Fatalf("%d lines of %d", lines, b.N)
			}
		})
	}
}

// endless repeats a line a number of times.
type endless struct {
	text []byte
	off  int
	left int
}

func (e *endless) Read(p []byte) (n int, err error) {
	for n < len(p) && e.left > 0 {
		c := copy(p[n:], e.text[e.off:])
		n += c
		if e.off += c; e.off == len(e.text) {
			e.off = 0
			e.left--
		}
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}
