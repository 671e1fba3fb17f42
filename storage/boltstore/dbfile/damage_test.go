package dbfile

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
)

// damageSeed can be set to repeat a run.
func damageSeed(t *testing.T) uint64 {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("DBFILE_SEED"); s != "" {
		if _, err := fmt.Sscan(s, &seed); err != nil {
			t.Fatalf("DBFILE_SEED: %v", err)
		}
	}
	t.Logf("DBFILE_SEED=%d", seed)
	return seed
}

// richStore is a small file with all that a tree can hold: branches, overflow
// pages, free pages, buckets in buckets, inline ones.
func richStore(t testing.TB) []byte {
	t.Helper()
	path := newStore(t, 400)
	f := mustOpen(t, Options{Path: path})
	err := f.DB().Update(func(tx *bolt.Tx) error {
		for i := range 6 {
			b, err := tx.CreateBucket(fmt.Appendf(nil, "bucket %d", i))
			if err != nil {
				return err
			}
			for j := range i * i * 6 { // from inline to two levels
				if err := b.Put(fmt.Appendf(nil, "k%05d", j), make([]byte, 40)); err != nil {
					return err
				}
			}
			inner, err := b.CreateBucket([]byte("inner"))
			if err != nil {
				return err
			}
			if err := inner.Put([]byte("deep"), []byte("value")); err != nil {
				return err
			}
		}
		things := tx.Bucket(testBucket)
		for i := 0; i < 400; i += 3 {
			if err := things.Delete(fmt.Appendf(nil, "key %08d", i)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, f)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	newest, _, err := ReadMeta(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw[:newest.Bytes()] // without bbolt's reserve, so that each byte counts
}

// opener is a child that opens damaged files, replaced when it dies.
type opener struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	errs *bytes.Buffer
	dir  string
	n    int
}

func newOpener(t *testing.T) *opener {
	o := &opener{t: t, dir: scratch(t)}
	o.start()
	t.Cleanup(func() { o.in.Close(); _ = o.cmd.Wait() })
	return o
}

// scratch is a folder in memory where there is one: the files of these tests
// need no disk, and a sync of each would take most of the time.
func scratch(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "dbfile")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (o *opener) start() {
	o.t.Helper()
	o.cmd, o.errs = childCommand("open-many", nil), &bytes.Buffer{}
	o.cmd.Stderr = o.errs
	var err error
	if o.in, err = o.cmd.StdinPipe(); err != nil {
		o.t.Fatal(err)
	}
	out, err := o.cmd.StdoutPipe()
	if err != nil {
		o.t.Fatal(err)
	}
	o.out = bufio.NewReader(out)
	if err := o.cmd.Start(); err != nil {
		o.t.Fatal(err)
	}
}

// try opens a file with these bytes in the child. Death, a trace, a hang or an
// error without a kind fails the test; so does a file that is refused and yet
// not left as it was. The answer is "ok…" or a kind.
func (o *opener) try(what string, raw []byte) string {
	o.t.Helper()
	o.n++
	path := filepath.Join(o.dir, fmt.Sprintf("f%d.db", o.n))
	if err := os.WriteFile(path, raw, fileMode); err != nil {
		o.t.Fatal(err)
	}
	defer os.Remove(path)
	defer os.Remove(path + lockSuffix)
	before := mustStat(o.t, path)
	// A hang ends the child after a minute, and so becomes a death.
	hang := time.AfterFunc(time.Minute, func() { _ = o.cmd.Process.Kill() })
	defer hang.Stop()
	fmt.Fprintln(o.in, path)
	line, err := o.out.ReadString('\n')
	if err != nil {
		_ = o.cmd.Wait()
		o.t.Errorf("%s: the opener died (%v): %.800s", what, o.cmd.ProcessState, o.errs)
		o.start()
		return "died"
	}
	answer := strings.TrimSpace(line)
	switch {
	case strings.HasPrefix(answer, "UNKIND"), strings.HasPrefix(answer, "MISSED"):
		o.t.Errorf("%s: %s", what, answer)
	case !strings.HasPrefix(answer, "ok"):
		now, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(now, raw) || !mustStat(o.t, path).ModTime().Equal(before.ModTime()) {
			o.t.Errorf("%s: refused (%s), and the file is not as it was (%v)", what, answer, err)
		}
	}
	return answer
}

func mustStat(t *testing.T, path string) os.FileInfo {
	t.Helper()
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// tally counts answers by their first word.
type tally map[string]int

func (n tally) add(answer string) { n[strings.Fields(answer)[0]]++ }

// want fails unless a kind of answer was seen: a test in which nothing ever goes
// wrong has damaged nothing.
func (n tally) want(t *testing.T, answers ...string) {
	t.Helper()
	t.Logf("answers: %v", map[string]int(n))
	for _, a := range answers {
		if n[a] == 0 {
			t.Errorf("never %s: %v", a, n)
		}
	}
}

func TestDamage(t *testing.T) {
	t.Parallel()
	base := richStore(t)
	seed := damageSeed(t)
	const rounds = 320

	t.Run("a file cut short at any place is refused", func(t *testing.T) {
		rng, o, n := rand.New(rand.NewPCG(seed, 1)), newOpener(t), tally{}
		for i := range rounds {
			size := rng.IntN(len(base))
			if i%4 == 0 {
				size = size &^ 4095 // at a page's border bbolt itself sees less
			}
			answer := o.try(fmt.Sprintf("cut to %d", size), base[:size])
			if strings.HasPrefix(answer, "ok") {
				t.Errorf("cut to %d of %d: opened", size, len(base))
			}
			n.add(answer)
		}
		for _, size := range []int{0, 1, 5, 79, 80, 4096, 4176, 8191, 8192, 16384, len(base) - 1} {
			n.add(o.try(fmt.Sprintf("cut to %d", size), base[:size]))
		}
		n.want(t, string(ErrTruncated), string(ErrEmpty))
	})
	t.Run("a flipped bit never ends the process", func(t *testing.T) {
		rng, o, n := rand.New(rand.NewPCG(seed, 2)), newOpener(t), tally{}
		for i := range rounds {
			at := rng.IntN(len(base) * 8)
			if i%2 == 0 { // headers and tables of elements, where it hurts most
				page := rng.IntN(len(base) / 4096)
				at = page*4096*8 + rng.IntN(64*8)
			}
			raw := bytes.Clone(base)
			raw[at/8] ^= 1 << (at % 8)
			n.add(o.try(fmt.Sprintf("bit %d of byte %d", at%8, at/8), raw))
		}
		n.want(t, "ok", string(ErrDamaged))
	})
	t.Run("zeroed, swapped, copied and random pages never end the process", func(t *testing.T) {
		rng, o, n := rand.New(rand.NewPCG(seed, 3)), newOpener(t), tally{}
		for range rounds {
			raw := bytes.Clone(base)
			n.add(o.try(spoilPages(rng, raw), raw))
		}
		n.want(t, "ok", string(ErrDamaged))
	})
	t.Run("a flipped bit in the newest meta page is reported, every one", func(t *testing.T) {
		o := newOpener(t)
		m, _ := newestOf(t, base)
		for bit := 0; bit < metaSize*8; bit += 3 {
			raw := bytes.Clone(base)
			raw[int64(m.Slot)*m.PageSize+pageHeaderSize+int64(bit/8)] ^= 1 << (bit % 8)
			if answer := o.try(fmt.Sprintf("meta bit %d", bit), raw); answer != "ok fallback" {
				t.Errorf("meta bit %d: %s", bit, answer)
			}
		}
	})
}

func newestOf(t testing.TB, raw []byte) (newest, other Meta) {
	t.Helper()
	m0, m1, err := bothMetas(bytes.NewReader(raw))
	if err != nil || m0.Err != nil || m1.Err != nil {
		t.Fatalf("meta pages: %v %v %v", m0.Err, m1.Err, err)
	}
	if m1.Txid > m0.Txid {
		return m1, m0
	}
	return m0, m1
}

// spoilPages does to raw what disks, caches and copying programs do.
func spoilPages(rng *rand.Rand, raw []byte) (what string) {
	pages := len(raw) / 4096
	page := func(i int) []byte { return raw[i*4096 : (i+1)*4096] }
	a, b := rng.IntN(pages), rng.IntN(pages)
	switch rng.IntN(7) {
	case 0:
		clear(page(a))
		return fmt.Sprintf("page %d zeroed", a)
	case 1:
		for i := a % 7; i < pages; i += 7 {
			clear(page(i))
		}
		return fmt.Sprintf("each seventh page from %d zeroed", a%7)
	case 2:
		t := bytes.Clone(page(a))
		copy(page(a), page(b))
		copy(page(b), t)
		return fmt.Sprintf("pages %d and %d swapped", a, b)
	case 3: // an older or other page, with the right number in its header
		copy(page(a), page(b))
		binary.LittleEndian.PutUint64(page(a), uint64(a))
		return fmt.Sprintf("page %d is a copy of page %d", a, b)
	case 4:
		for i := range page(a) {
			page(a)[i] = byte(rng.Uint32())
		}
		return fmt.Sprintf("page %d random", a)
	case 5: // a plausible header over a spoilt rest
		for i := pageHeaderSize; i < 200; i++ {
			page(a)[i] = byte(rng.Uint32())
		}
		return fmt.Sprintf("page %d: random table", a)
	}
	// a child's number changed to another page, or far away
	target := uint64(b)
	if rng.IntN(2) == 0 {
		target = rng.Uint64()
	}
	at := pageHeaderSize + 16*rng.IntN(20) + 8
	binary.LittleEndian.PutUint64(page(a)[at:], target)
	return fmt.Sprintf("page %d: number at %d is now %d", a, at, target)
}

func TestForeign(t *testing.T) {
	o := newOpener(t)
	base := richStore(t)
	m, _ := newestOf(t, base)
	noMetas := bytes.Clone(base)
	clear(noMetas[:2*m.PageSize])
	spoilt := bytes.Clone(base)
	spoilt[pageHeaderSize+20]++
	spoilt[m.PageSize+pageHeaderSize+20]++
	random := make([]byte, 64<<10)
	for i := range random {
		random[i] = byte(i * 7919 >> 3)
	}
	for _, c := range []struct {
		name, want, says string
		raw              []byte
	}{
		{"text", "STORE_FOREIGN", "text", []byte(strings.Repeat("Ordnung ist das halbe Leben, größtenteils.\n", 500))},
		{"short text", "STORE_FOREIGN", "text", []byte("hello")},
		{"SQLite", "STORE_FOREIGN", "SQLite", append([]byte("SQLite format 3\x00"), random...)},
		{"gzip", "STORE_FOREIGN", "gzip", append([]byte{0x1f, 0x8b, 8, 0}, random...)},
		{"random bytes", "STORE_FOREIGN", "begins with", random[5:]},
		{"zeros", "STORE_DAMAGED", "zeros", make([]byte, 64<<10)},
		{"both meta pages zeroed", "STORE_DAMAGED", "zeros", noMetas},
		{"both meta pages spoilt", "STORE_DAMAGED", "neither meta page", spoilt},
	} {
		t.Run(c.name+" is refused in its own words", func(t *testing.T) {
			answer := o.try(c.name, c.raw)
			if !strings.HasPrefix(answer, c.want+" ") || !strings.Contains(answer, c.says) {
				t.Errorf("%s: %s, want %s and %q", c.name, answer, c.want, c.says)
			}
		})
	}
}
