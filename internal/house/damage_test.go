package house

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"breakwater/queue"
	"breakwater/storage"
)

// specimen is a store with something of everything, stopped cleanly: the files, and
// what they hold.
type specimen struct {
	files map[string][]byte // by name below var
	lines map[uint64]string // the lines of open messages and dead letters, by seq
	done  []uint64
	ids   map[uint64]string // idempotency keys
}

// storeFiles are the files of a store, below data_dir.
var storeFiles = []string{"breakwater.db", "breakwater.db.head", "breakwater.db.lock"}

// newSpecimen lets the program make one.
func newSpecimen(t *testing.T) *specimen {
	t.Helper()
	s := newSite(t, "")
	p := s.serve()
	sp := &specimen{files: map[string][]byte{}, lines: map[uint64]string{}, ids: map[uint64]string{}}
	var text strings.Builder
	var sent []string
	add := func(line string) {
		sent = append(sent, line)
		text.WriteString(line + "\n")
	}
	for i := range 150 {
		add(exceptionLine(fmt.Sprintf("OPEN%d", i%7), fmt.Sprintf("open-%d", i), `,"pad":"`+strings.Repeat("x", i)+`"`))
		add(exceptionLine(fmt.Sprintf("DONE%d", i%7), fmt.Sprintf("done-%d", i), `,"route":"AUTO_RESOLVE"`))
	}
	add(`{"idempotency_key":"poison","trace_id":"t","partition_key":"p"}`)
	add(exceptionLine("ELSEWHERE", "open-0", "")) // a conflict
	for i, a := range s.sendAll(text.String()) {
		if i == len(sent) {
			break
		}
		if a.Seq == 0 {
			t.Fatalf("line %d: %+v", i+1, a)
		}
		if strings.Contains(sent[i], `"DONE`) {
			sp.done = append(sp.done, a.Seq)
			continue
		}
		sp.lines[a.Seq] = sent[i]
	}
	s.awaitDone(len(sp.done))
	p.stop()
	s.sound()
	for _, name := range storeFiles {
		sp.files[name] = []byte(s.read("var/" + name))
	}
	return sp
}

// lay puts the specimen's files into a new site.
func (sp *specimen) lay(t *testing.T) *site {
	t.Helper()
	s := newSite(t, "")
	if err := os.MkdirAll(s.path("var"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, body := range sp.files {
		s.write("var/"+name, string(body))
	}
	return s
}

// honest runs the program on a damaged file. It may refuse the file, which is then
// as it was; or serve it, if what it says of every message is true, or that it is
// damaged.
func (sp *specimen) honest(s *site) (served bool) {
	s.Helper()
	before, beforeErr := fingerprintOf(s.store())
	p := s.start("serve")
	if p.log.await(`"@message":"ready"`) {
		p.signal(syscall.SIGTERM)
		if status := p.wait(); status != 0 && status != 1 {
			s.Errorf("exit status %d after SIGTERM", status)
		}
		noTrace(s, p)
		sp.true(s)
		return true
	}
	refused(s, p)
	after, afterErr := fingerprintOf(s.store())
	if before != after || (beforeErr == nil) != (afterErr == nil) {
		s.Errorf("the refused file has changed: %s, was %s", after, before)
	}
	return false
}

// refused checks how a start that failed says so.
func refused(s *site, p *process) {
	s.Helper()
	if status := p.wait(); status != 1 {
		s.Errorf("exit status %d, want 1 (%s)", status, p.cmd.ProcessState)
	}
	text := p.log.all()
	if strings.Count(text, "breakwater: error: ") != 1 || strings.Count(text, "\nhint: ") != 1 {
		s.Errorf("want one error and one hint:\n%s", text)
	}
	noTrace(s, p)
}

// noTrace wants no sign of a crash of ours in what the program has written.
func noTrace(s *site, p *process) {
	s.Helper()
	for _, sign := range []string{"goroutine ", "panic:", "SIGSEGV", "SIGBUS", "fatal error", "runtime error"} {
		if strings.Contains(p.log.all(), sign) {
			s.Errorf("the program's log has %q:\n%s", sign, p.log.all())
			return
		}
	}
}

// fingerprintOf is all that must not change of a file.
func fingerprintOf(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	text := fmt.Sprint(info.Mode(), info.Size(), info.ModTime().UnixNano())
	if !info.Mode().IsRegular() {
		return text, nil
	}
	body, err := os.ReadFile(path)
	return fmt.Sprintf("%s %x", text, sha256.Sum256(body)), err
}

// true checks that whatever the store says of a message is right, or an error.
func (sp *specimen) true(s *site) {
	s.Helper()
	c, err := storage.OpenCopy(storage.Options{Path: s.store()})
	if err != nil {
		return // the damage was met after all
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	v, err := c.Verify(ctx, queue.VerifyOptions{Buckets: true})
	found := err != nil || len(v.Findings) > 0
	for seq, line := range sp.lines {
		e, err := c.Exception(ctx, seq)
		switch {
		case err != nil && !found:
			s.Errorf("seq %d cannot be read (%v), but the verification finds nothing", seq, err)
		case err == nil && len(e.Line) == 0 && strings.HasSuffix(e.HeldBy, "are damaged"):
		case err == nil && string(e.Line) != line:
			s.Errorf("seq %d has another line than was sent, and no error", seq)
		case err == nil && (e.State == queue.Done || e.State == queue.Discarded):
			s.Errorf("seq %d is %s", seq, e.State)
		}
	}
	// Each of these is a walk over the trail: some stand for all.
	for i := 0; i < len(sp.done); i += 29 {
		seq := sp.done[i]
		e, err := c.Exception(ctx, seq)
		switch {
		case err != nil && !found:
			s.Errorf("seq %d cannot be read (%v), but the verification finds nothing", seq, err)
		case err == nil && e.State != queue.Done:
			s.Errorf("seq %d was done, is %s", seq, e.State)
		}
	}
}

const pageSize = 4096

func zero(b []byte, from, to int) { clear(b[min(from, len(b)):min(to, len(b))]) }

// newestMeta is the page, 0 or 1, of bbolt's newest meta; see its page layout: 16
// bytes of header, then magic, version, page size, flags, root, freelist, high
// water (at 40), transaction (at 48) and checksum (at 56).
func newestMeta(b []byte) int {
	if binary.LittleEndian.Uint64(b[16+48:]) > binary.LittleEndian.Uint64(b[pageSize+16+48:]) {
		return 0
	}
	return 1
}

// used is how much of the file the newest meta page speaks of; behind it there is
// only room to grow.
func used(b []byte) int {
	return int(binary.LittleEndian.Uint64(b[newestMeta(b)*pageSize+16+40:])) * pageSize
}

// flipAll changes a byte at a distance behind every occurrence of a pattern, and
// says how many there were.
func flipAll(b, pattern []byte, distance int) (n int) {
	for at := 0; ; n++ {
		i := bytes.Index(b[at:], pattern)
		if i < 0 {
			return n
		}
		at += i + len(pattern)
		if j := at - len(pattern) + distance; j < len(b) {
			b[j] ^= 0x40
		}
	}
}

// damage is one way to spoil a store's file.
type damage struct {
	name  string
	spoil func(t *testing.T, sp *specimen, b []byte) []byte
	// mayServe: the damage may be met only when it is read, or do no harm.
	mayServe bool
}

var damages = []damage{
	{name: "cut to 5 bytes", spoil: cutTo(5)},
	{name: "cut to one page", spoil: cutTo(pageSize)},
	{name: "cut to two pages", spoil: cutTo(2 * pageSize)},
	{name: "cut to four pages", spoil: cutTo(4 * pageSize)},
	{name: "cut to half", spoil: func(_ *testing.T, _ *specimen, b []byte) []byte { return b[:used(b)/2] }},
	{name: "one byte short", spoil: func(_ *testing.T, _ *specimen, b []byte) []byte { return b[:used(b)-1] }},
	{name: "both meta pages zeroed", spoil: func(_ *testing.T, _ *specimen, b []byte) []byte {
		zero(b, 0, 2*pageSize)
		return b
	}},
	{name: "the older meta page zeroed", mayServe: true, spoil: func(_ *testing.T, _ *specimen, b []byte) []byte {
		at := (1 - newestMeta(b)) * pageSize
		zero(b, at, at+pageSize)
		return b
	}},
	{name: "the newest meta page zeroed", mayServe: true, spoil: func(_ *testing.T, _ *specimen, b []byte) []byte {
		at := newestMeta(b) * pageSize
		zero(b, at, at+pageSize)
		return b
	}},
	{name: "every 7th page zeroed", mayServe: true, spoil: func(_ *testing.T, _ *specimen, b []byte) []byte {
		for at := 6 * pageSize; at < len(b); at += 7 * pageSize {
			zero(b, at, at+pageSize)
		}
		return b
	}},
	{name: "every page but the meta pages zeroed", spoil: func(_ *testing.T, _ *specimen, b []byte) []byte {
		zero(b, 2*pageSize, len(b))
		return b
	}},
	{name: "a text file", spoil: func(*testing.T, *specimen, []byte) []byte {
		return []byte(strings.Repeat("This is no store, but it is long enough to look like one.\n", 1000))
	}},
	{name: "an empty file", spoil: cutTo(0)},
	{name: "a newer bbolt", spoil: func(_ *testing.T, _ *specimen, b []byte) []byte {
		for page := range 2 {
			meta := b[page*pageSize+16:]
			binary.LittleEndian.PutUint32(meta[4:], 3)
			sum := fnv.New64a()
			sum.Write(meta[:56])
			binary.LittleEndian.PutUint64(meta[56:], sum.Sum64())
		}
		return b
	}},
	{name: "a newer format", spoil: func(t *testing.T, _ *specimen, b []byte) []byte {
		newer := bytes.ReplaceAll(b, []byte("format\x00\x00\x00\x01"), []byte("format\x00\x00\x00\x02"))
		if bytes.Equal(b, newer) {
			t.Fatal("the format's version is not where the documentation says")
		}
		return newer
	}},
	{name: "a changed byte in a stored message", mayServe: true, spoil: flipLine(`"OPEN3"`, 1)},
	{name: "a changed byte in a dead letter", mayServe: true, spoil: flipLine(`"idempotency_key":"poison"`, 3)},
	{name: "a changed byte in the ledger", mayServe: true, spoil: func(t *testing.T, _ *specimen, b []byte) []byte {
		i := bytes.Index(b, []byte("secret"))
		if i < 0 {
			t.Fatal("the secret is not where the documentation says")
		}
		secret := b[i+len("secret") : i+len("secret")+32]
		sum := sha256.Sum256(append(append([]byte{}, secret...), "done-17"...))
		if flipAll(b, sum[:16], 20) == 0 {
			t.Fatal("the ledger's entry is not where the documentation says")
		}
		return b
	}},
	{name: "a changed byte in the trail", mayServe: true, spoil: func(t *testing.T, sp *specimen, b []byte) []byte {
		// The last block that the specimen's own producer saw the head of is not
		// the newest one by far.
		if flipAll(b, []byte(`"event":"ACCEPTED"`), 12) == 0 && flipAll(b, []byte{0x28, 0xb5, 0x2f, 0xfd}, 40) == 0 {
			t.Fatal("no block of the trail is plain, and none is a zstd frame")
		}
		return b
	}},
}

func cutTo(n int) func(*testing.T, *specimen, []byte) []byte {
	return func(_ *testing.T, _ *specimen, b []byte) []byte { return b[:n] }
}

func flipLine(pattern string, distance int) func(*testing.T, *specimen, []byte) []byte {
	return func(t *testing.T, _ *specimen, b []byte) []byte {
		if flipAll(b, []byte(pattern), distance) == 0 {
			t.Fatalf("%s is not in the file", pattern)
		}
		return b
	}
}

func TestDamage(t *testing.T) {
	sp := newSpecimen(t)
	for _, d := range damages {
		for _, clean := range []bool{true, false} {
			name := d.name
			if !clean {
				name += ", after an unclean stop"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := sp.lay(t)
				body := d.spoil(t, sp, bytes.Clone(sp.files["breakwater.db"]))
				s.write("var/breakwater.db", string(body))
				if !clean {
					// Without its note of a clean stop.
					if err := os.Remove(s.path("var/breakwater.db.lock")); err != nil {
						t.Fatal(err)
					}
				}
				if sp.honest(s) && !d.mayServe {
					t.Error("the program serves it")
				}
			})
		}
	}
	t.Run("random bytes", func(t *testing.T) {
		t.Parallel()
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		rng := rand.New(rand.NewPCG(seed, 2))
		served := 0
		for range 16 {
			s := sp.lay(t)
			body := bytes.Clone(sp.files["breakwater.db"])
			at, bit := rng.IntN(used(body)), byte(1)<<rng.IntN(8)
			body[at] ^= bit
			s.write("var/breakwater.db", string(body))
			if sp.honest(s) {
				served++
			}
			if t.Failed() {
				t.Fatalf("byte %d xor %#x", at, bit)
			}
		}
		t.Logf("%d of 16 were served", served)
	})
}

func TestStrangePaths(t *testing.T) {
	sp := newSpecimen(t)
	t.Run("a folder in the place of the file", func(t *testing.T) {
		t.Parallel()
		s := sp.lay(t)
		remove(t, s.store())
		if err := os.Mkdir(s.store(), 0o700); err != nil {
			t.Fatal(err)
		}
		if sp.honest(s) {
			t.Error("the program serves it")
		}
	})
	t.Run("a link in the place of the file", func(t *testing.T) {
		t.Parallel()
		s := sp.lay(t)
		elsewhere := s.path("elsewhere.db")
		if err := errors.Join(os.Rename(s.store(), elsewhere), os.Symlink(elsewhere, s.store())); err != nil {
			t.Fatal(err)
		}
		if sp.honest(s) {
			t.Error("the program serves it")
		}
	})
	t.Run("a second program on the same store", func(t *testing.T) {
		t.Parallel()
		s := sp.lay(t)
		first := s.serve()
		second := s.start("serve")
		refused(s, second)
		if text := second.log.all(); !strings.Contains(text, filepath.Base(s.store())) || !strings.Contains(text, "in use") {
			t.Errorf("it does not say which file is in use:\n%s", text)
		}
		if a := s.sendOne(exceptionLine("k", "after the second", "")); a.Status != "accepted" {
			t.Errorf("the first one does not serve any more: %+v", a)
		}
		first.stop()
		s.sound()
	})
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func TestRolledBack(t *testing.T) {
	t.Parallel()
	sp := newSpecimen(t)
	s := sp.lay(t)
	p := s.serve()
	late := s.sendOne(exceptionLine("k", "only in the newer file", ""))
	p.stop()
	s.write("var/breakwater.db", string(sp.files["breakwater.db"]))
	if sp.honest(s) {
		t.Fatal("an older file is served beside a newer witness")
	}
	s.serve("--restore").stop()
	if st := s.status(); st.Paused == nil {
		t.Error("a restored store does not start paused")
	}
	s.last(queue.EventRestored)
	s.sound()
	// From now on it is the store.
	p = s.serve()
	if again := s.sendOne(exceptionLine("k", "only in the newer file", "")); again.Status != "accepted" || again.Seq != late.Seq {
		t.Errorf("after a restore: %+v", again)
	}
	p.stop()
	s.sound()
}
