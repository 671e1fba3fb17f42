package house

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"breakwater/storage"
)

// testdata/formats/vN/site is an installation of a program that wrote version N of the
// file's format, as kill -9 left it, with an archive and signed checkpoints. Today's
// program takes both into service. The other stores of a version are package boltstore's,
// which looks at them value by value; here they are read by the command line, and by a
// reader that shares no code with the program.

// makeFormats keeps an installation of the present version, if there is none yet.
var makeFormats = flag.Bool("formats.make", false, "keep an installation of a new format version in testdata/formats (TestFormats_site)")

// siteFacts is what is known of such an installation.
type siteFacts struct {
	Lines     []siteLine `json:"lines"`
	Witnesses []string   `json:"witnesses"` // heads that "end" lines showed, up to the archive
	Later     []string   `json:"later"`     // and after it
	Killed    siteTold   `json:"killed"`
	Archive   siteTold   `json:"archive"`
}

// siteLine is a line that was sent, and what its sender is told who sends it again.
type siteLine struct {
	Line   string `json:"line"`
	Status string `json:"status"`
	Seq    uint64 `json:"seq"`
	State  string `json:"state,omitempty"`
}

// siteTold is what the command line says of a file.
type siteTold struct {
	Verify map[string]any `json:"verify"`
	Status map[string]any `json:"status"`
}

// lasting are the members of a status that do not depend on when it is asked, and where.
var lasting = []string{
	"ready", "scheduled", "leased", "held", "done", "dead", "discarded", "quarantined", "open_keys", "held_keys", "blocked_keys",
	"operator_holds", "ledger_keys", "last_seq", "dead_by_code", "dead_unvalued", "at_risk", "paused", "audit",
}

// ask asks a file.
func (s *site) ask(file string) (told siteTold) {
	s.Helper()
	read := func(args ...string) (doc map[string]any) {
		s.Helper()
		if err := json.Unmarshal([]byte(s.command(append(args, "--json", "--file", file)...)), &doc); err != nil {
			s.Fatal(err)
		}
		return doc
	}
	told.Verify = read("audit", "verify")
	told.Status = read("status")
	for name := range told.Status {
		if !slices.Contains(lasting, name) {
			delete(told.Status, name)
		}
	}
	return told
}

// within reports where a document does not say what is known; more may be said in it.
func within(known, said any, at string) (wrong []string) {
	k, ok := known.(map[string]any)
	if !ok {
		if !reflect.DeepEqual(known, said) {
			wrong = append(wrong, fmt.Sprintf("%s is %v, not %v", at, said, known))
		}
		return wrong
	}
	m, _ := said.(map[string]any)
	for name, value := range k {
		wrong = append(wrong, within(value, m[name], at+"."+name)...)
	}
	return wrong
}

// compare wants a file to say what is known of it.
func (s *site) compare(file string, known siteTold) {
	s.Helper()
	told := s.ask(file)
	for _, wrong := range append(within(known.Verify, told.Verify, "verify"), within(known.Status, told.Status, "status")...) {
		s.Errorf("%s: %s", filepath.Base(file), wrong)
	}
}

// siteVersions are the folders of installations, by version.
func siteVersions(t testing.TB) (dirs []string) {
	t.Helper()
	for v := 1; v <= storage.FormatVersion; v++ {
		dirs = append(dirs, filepath.Join(root(t), fmt.Sprintf("testdata/formats/v%d/site", v)))
	}
	return dirs
}

// unpack reads a file that is kept compressed.
func unpack(t testing.TB, path string) []byte {
	t.Helper()
	packed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	body, err := d.DecodeAll(packed, nil)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return body
}

// layOut puts an installation of an old version into a folder of its own.
func layOut(t *testing.T, dir string) (s *site, facts siteFacts) {
	t.Helper()
	s = newSite(t, "")
	s.mkdir("var")
	s.write("var/breakwater.db", string(unpack(t, filepath.Join(dir, "breakwater.db.zst"))))
	s.write("archive.db", string(unpack(t, filepath.Join(dir, "archive.db.zst"))))
	for from, to := range map[string]string{
		"breakwater.db.head": "var/breakwater.db.head", "breakwater.db.lock": "var/breakwater.db.lock",
		"archive.db.manifest.json": "archive.db.manifest.json", "checkpoints.txt": "checkpoints.txt", "checkpoint.key.pub": "checkpoint.key.pub",
	} {
		text, err := os.ReadFile(filepath.Join(dir, from))
		if err != nil {
			t.Fatal(err)
		}
		s.write(to, string(text))
	}
	text, err := os.ReadFile(filepath.Join(dir, "facts.json"))
	if err == nil {
		err = json.Unmarshal(text, &facts)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s, facts
}

// TestFormats_site has today's program read, serve and restore an installation of each
// version.
func TestFormats_site(t *testing.T) {
	if *makeFormats {
		keepSite(t, siteVersions(t)[storage.FormatVersion-1])
	}
	for _, dir := range siteVersions(t) {
		version := filepath.Base(filepath.Dir(dir))
		t.Run(version+"/read", func(t *testing.T) {
			s, facts := layOut(t, dir)
			s.compare(s.store(), facts.Killed)
			s.compare(s.path("archive.db"), facts.Archive)
			s.proves(facts)
		})
		t.Run(version+"/served", func(t *testing.T) {
			s, facts := layOut(t, dir)
			s.livesOn(s.serve(), facts)
		})
		t.Run(version+"/restored", func(t *testing.T) {
			s, facts := layOut(t, dir)
			for _, name := range []string{"archive.db", "archive.db.manifest.json"} {
				s.write("var/"+strings.Replace(name, "archive.db", "breakwater.db", 1), s.read(name))
			}
			refused(s, s.start("serve"))
			facts.Lines = facts.Lines[:len(facts.Lines)-1] // the last one came after it
			for i := range facts.Lines {
				if facts.Lines[i].State == "leased" {
					facts.Lines[i].State = "ready" // who had it, had it elsewhere
				}
			}
			s.livesOn(s.serve("--restore"), facts)
		})
		t.Run(version+"/of the next version", func(t *testing.T) {
			s, _ := layOut(t, dir)
			now, next := []byte{0, 0, 0, storage.FormatVersion}, []byte{0, 0, 0, storage.FormatVersion + 1}
			body := bytes.ReplaceAll([]byte(s.read("var/breakwater.db")), append([]byte("format"), now...), append([]byte("format"), next...))
			s.write("var/breakwater.db", string(body))
			p := s.start("serve")
			refused(s, p)
			if text := p.log.all(); !strings.Contains(text, "STORE_NEWER") || !strings.Contains(text, "its format is") {
				t.Errorf("it does not say what it is:\n%s", text)
			}
			if !bytes.Equal(body, []byte(s.read("var/breakwater.db"))) {
				t.Error("the refused file was changed")
			}
		})
	}
}

// proves finds in the files what was kept of them elsewhere.
func (s *site) proves(facts siteFacts) {
	s.Helper()
	var doc struct {
		Sound       bool
		Checkpoints struct{ Checked, Found int }
	}
	out := s.command("audit", "verify", "--json", "--file", s.store(), "--checkpoint", s.path("checkpoints.txt"), "--key", s.path("checkpoint.key.pub"))
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		s.Fatal(err)
	}
	if n := strings.Count(s.read("checkpoints.txt"), "\nblock "); n == 0 || !doc.Sound || doc.Checkpoints.Found != n || doc.Checkpoints.Checked != n {
		s.Errorf("of %d checkpoints: %+v", n, doc)
	}
	if len(facts.Witnesses) == 0 || len(facts.Later) == 0 {
		s.Fatal("no heads are known")
	}
	for _, head := range append(facts.Witnesses, facts.Later...) {
		s.command("audit", "verify", "--file", s.store(), "--witness", head)
	}
	for _, head := range facts.Witnesses {
		s.command("audit", "verify", "--file", s.path("archive.db"), "--witness", head)
	}
}

// livesOn lets the program work off what it has found, and stops it in good order.
func (s *site) livesOn(p *process, facts siteFacts) {
	s.Helper()
	for _, one := range facts.Lines {
		if a := s.sendOne(one.Line); a.Status != one.Status || a.Seq != one.Seq || a.State != one.State {
			s.Errorf("%s: %+v, want %+v", one.Line, a, one)
		}
	}
	before := s.done()
	for i := range 5 {
		if a := s.sendOne(exceptionLine("NEW", fmt.Sprint("new-", i), `,"route":"AUTO_RESOLVE"`)); a.Status != "accepted" {
			s.Errorf("a new line: %+v", a)
		}
	}
	s.command("resume", "--by", "olga")
	s.command("keys", "release", "HELD", "--by", "olga")
	s.command("dlq", "replay", "8", "9", "--by", "olga")
	s.awaitDone(before + 5)
	s.command("archive", s.path("today.db"))
	s.sameManifest("archive.db.manifest.json", "today.db.manifest.json")
	s.command("audit", "verify")
	p.stop()
	s.sound()
}

// sameManifest wants today's manifest to have every member that the old one has, but for
// what is named after its contents.
func (s *site) sameManifest(old, today string) {
	s.Helper()
	read := func(name string) (doc map[string]any) {
		s.Helper()
		if err := json.Unmarshal([]byte(s.read(name)), &doc); err != nil {
			s.Fatal(err)
		}
		return doc
	}
	was, is := read(old), read(today)
	for name, value := range was {
		part, _ := is[name].(map[string]any)
		members, _ := value.(map[string]any)
		if _, there := is[name]; !there && name != "reason" && name != "by" {
			s.Errorf("%s has no %s, %s has", today, name, old)
		}
		for member := range members {
			if _, there := part[member]; !there && name != "events" && name != "config" {
				s.Errorf("%s has no %s.%s, %s has", today, name, member, old)
			}
		}
	}
}

// TestFormats_without_us reads every store of every version with testdata/formats/read.py,
// which knows only what docs/format.md says: it must find the records that the program
// exports, in the chain that the program verifies.
func TestFormats_without_us(t *testing.T) {
	for _, program := range []string{"python3", "zstd"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("there is no %s", program)
		}
	}
	files, err := filepath.Glob(filepath.Join(root(t), "testdata/formats/v*/*.db.zst"))
	if err != nil || len(files) < 5 {
		t.Fatalf("stores: %q, %v", files, err)
	}
	s := newSite(t, "")
	reader := filepath.Join(root(t), "testdata/formats/read.py")
	read := func(args ...string) (records, said string, err error) {
		cmd := exec.Command("python3", append([]string{reader}, args...)...)
		var out, log strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &log
		err = cmd.Run()
		return out.String(), log.String(), err
	}
	for _, file := range files {
		path := s.write("copy.db", string(unpack(t, file)))
		records, said, err := read(path, "--records")
		if want := s.command("audit", "export", "--file", path); err != nil || records != want {
			t.Errorf("%s: %v, %s\n%d bytes of records, exported are %d", file, err, said, len(records), len(want))
		}
	}
	for _, dir := range siteVersions(t) {
		s, facts := layOut(t, dir)
		good := []string{s.store(), "--checkpoint", s.path("checkpoints.txt"), "--witness", facts.Later[0]}
		_, said, err := read(good...)
		if n := 1 + strings.Count(s.read("checkpoints.txt"), "\nblock "); err != nil || !strings.Contains(said, fmt.Sprintf("%d of %d heads are found", n, n)) {
			t.Errorf("%v: %s", err, said)
		}
		wrong := func(what, want string, args ...string) {
			t.Helper()
			if _, said, err := read(args...); err == nil || !strings.Contains(said, "NOT SOUND: "+want) {
				t.Errorf("%s: %v, %s", what, err, said)
			}
		}
		wrong("a head of nobody", "the head", s.store(), "--witness", facts.Later[0][:len(facts.Later[0])-1]+"x")
		wrong("an archive from before a checkpoint", "the checkpoint", s.path("archive.db"), "--checkpoint", s.path("checkpoints.txt"))
		body := unpack(t, filepath.Join(dir, "../killed.db.zst"))
		for what, want := range map[string]string{`"event":"PAUSED"`: "block ", string(zstdMagic): "among the blocks"} {
			if !bytes.Contains(body, []byte(what)) {
				t.Fatalf("%s has no %q", dir, what)
			}
			changed := bytes.ReplaceAll(body, []byte(what), append([]byte(what[:len(what)-1]), '?'))
			wrong("a record that was changed", want, s.write("copy.db", string(changed)))
		}
	}
}

// zstdMagic begins each compressed block of the trail.
var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

// keepSite has today's program live for a while, and keeps what is left.
func keepSite(t *testing.T, dir string) {
	t.Helper()
	if _, err := os.Stat(dir); err == nil {
		t.Fatalf("%s is there already, and is never made anew. If the format is another now, FormatVersion must be", dir)
	}
	s := newSite(t, "checkpoint {\n  key        = \"./checkpoint.key\"\n  output     = \"./checkpoints.txt\"\n  interval_s = 1\n}\n")
	s.command("audit", "keygen", "--out", s.path("checkpoint.key"), "--name", "example.com/old")
	p := s.serve()
	s.command("keys", "hold", "HELD", "--by", "olga", "--reason", "look")
	facts := siteFacts{}
	facts.Witnesses = append(facts.Witnesses, s.told(&facts, siteLines()...))
	c := s.reviews()
	s.awaitDone(7)
	eventually(t, "all answers are given", func() bool { n := s.counts(); return n.Dead == 4 && n.Leased == 1 })
	s.command("dlq", "edit", "9", "--set", "variance_amount=-1042.38", "--yes", "--by", "olga", "--reason", "as the branch says")
	s.configure(s.read("config.hcl")[len("data_dir = \"./var\"\n"):] + "queue {\n  max_attempts = 7\n}\n")
	s.command("reload", "--by", "olga")
	facts.Witnesses = append(facts.Witnesses, s.told(&facts, facts.Lines[0].Line))
	s.command("pause", "--by", "olga", "--reason", "end of the day")
	s.command("archive", s.path("archive.db"), "--by", "olga", "--reason", "month end")
	facts.Later = append(facts.Later, s.told(&facts, exceptionLine("AFTER", "after", "")))
	signed := func() int { return strings.Count(s.read("checkpoints.txt"), "\nblock ") }
	before := signed()
	eventually(t, "the last line is signed", func() bool { return signed() > before })
	p.kill()
	_ = c.Close()
	facts.Killed, facts.Archive = s.ask(s.store()), s.ask(s.path("archive.db"))
	for i := range facts.Lines { // what is answered is what the store says now
		one := &facts.Lines[i]
		if one.Status == "accepted" {
			one.Status, one.State = "duplicate", s.exception(one.Seq).State.String()
		}
	}
	s.keep(dir, facts)
}

// siteLines are what comes in at first.
func siteLines() (lines []string) {
	for i := range 6 {
		lines = append(lines, exceptionLine(fmt.Sprint("AUTO", i%2), fmt.Sprint("auto-", i), `,"route":"AUTO_RESOLVE"`))
	}
	for _, key := range []string{"DECIDED", "REFUSED", "EDITED", "WAITS", "KEPT", "HELD"} {
		lines = append(lines, exceptionLine(key, strings.ToLower(key), ""))
	}
	return append(lines, exceptionLine("LATER", "later", `,"not_before":"2200-01-01T00:00:00Z"`), exceptionLine("AUTO0", "kept", ""), `{"idempotency_key":"poison"}`)
}

// told sends lines, notes what is answered to those that are new, and returns the head
// that the end line shows.
func (s *site) told(facts *siteFacts, lines ...string) (head string) {
	s.Helper()
	c := s.connect()
	defer c.Close()
	if _, err := c.Write([]byte(strings.Join(lines, "\n") + "\n")); err != nil {
		s.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		s.Fatal(err)
	}
	in := bufio.NewScanner(c)
	for in.Scan() {
		var end struct {
			Audit struct {
				Block uint64
				Head  string
			}
		}
		a := parseAnswer(s, in.Bytes())
		if a.Event == "end" {
			if err := json.Unmarshal(in.Bytes(), &end); err != nil {
				s.Fatal(err)
			}
			return fmt.Sprintf("%d:%s", end.Audit.Block, end.Audit.Head)
		}
		if a.Status != "duplicate" {
			facts.Lines = append(facts.Lines, siteLine{Line: lines[a.Line-1], Status: a.Status, Seq: a.Seq})
		}
	}
	s.Fatal("no end line")
	return ""
}

// reviews attaches a consumer that answers, and keeps one exception.
func (s *site) reviews() net.Conn {
	s.Helper()
	c, err := net.Dial("unix", s.consumeSocket())
	if err != nil {
		s.Fatal(err)
	}
	say := func(format string, args ...any) {
		if _, err := fmt.Fprintf(c, format+"\n", args...); err != nil && !errors.Is(err, net.ErrClosed) {
			s.Error(err)
		}
	}
	say(`{"attach":"review-ui-1","prefetch":16,"lease_timeout_ms":3600000}`)
	in := bufio.NewScanner(c)
	for left := 5; left > 0 && in.Scan(); {
		var d struct {
			Lease string
			Key   string `json:"partition_key"`
		}
		if err := json.Unmarshal(in.Bytes(), &d); err != nil {
			s.Fatal(err)
		}
		if d.Key == "" {
			continue
		}
		left--
		switch d.Key {
		case "DECIDED":
			say(`{"ack":%q,"outcome":"APPROVED","by":"alice","note":"voucher 4711"}`, d.Lease)
		case "REFUSED", "EDITED":
			say(`{"reject":%q,"reason":"no such account"}`, d.Lease)
		case "WAITS":
			say(`{"hold":%q,"until":"2200-01-01T00:00:00Z","reason":"dispute"}`, d.Lease)
		}
	}
	return c
}

// keep writes an installation to where it stays.
func (s *site) keep(dir string, facts siteFacts) {
	s.Helper()
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1))
	if err != nil {
		s.Fatal(err)
	}
	defer e.Close()
	text, err := json.MarshalIndent(facts, "", " ")
	if err != nil {
		s.Fatal(err)
	}
	files := map[string][]byte{
		"facts.json": append(text, '\n'), "breakwater.db.zst": e.EncodeAll([]byte(s.read("var/breakwater.db")), nil), "archive.db.zst": e.EncodeAll([]byte(s.read("archive.db")), nil),
	}
	for _, name := range []string{"var/breakwater.db.head", "var/breakwater.db.lock", "archive.db.manifest.json", "checkpoints.txt", "checkpoint.key.pub"} {
		files[filepath.Base(name)] = []byte(s.read(name))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		s.Fatal(err)
	}
	for name, body := range files {
		if err := os.WriteFile(filepath.Join(dir, name), body, 0o644); err != nil {
			s.Fatal(err)
		}
	}
}

func TestFormats_site_flags(t *testing.T) {
	known := map[string]any{"a": map[string]any{"b": 1.0}, "list": []any{1.0}}
	for text, wrong := range map[string]int{
		`{"a":{"b":1,"more":2},"list":[1],"more":3}`: 0, `{"a":{"b":2},"list":[1]}`: 1, `{"list":[1,2]}`: 2, `{"a":5,"list":[1]}`: 1,
	} {
		var said any
		if err := json.Unmarshal([]byte(text), &said); err != nil {
			t.Fatal(err)
		}
		if got := within(known, said, ""); len(got) != wrong {
			t.Errorf("%s: %q, want %d", text, got, wrong)
		}
	}
}
