package checkpoint

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"pgregory.net/rapid"

	"breakwater/queue"
)

// A key of the golden example in docs/format.md: it signs nothing else.
const (
	exampleSecret = "PRIVATE+KEY+example.com/breakwater+cb46bd50+AQABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
	examplePublic = "example.com/breakwater+cb46bd50+AQOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4"
)

func sample(n uint64) Checkpoint {
	return Checkpoint{
		Origin: queue.Origin([16]byte{0xab, 15: 1}), N: n,
		Head: queue.Head{Block: n / 3, Hash: queue.LineHash([]byte{byte(n)})},
		Time: time.Date(2026, 12, 1, 17, 0, 0, 42_000, time.UTC),
	}
}

// newKey makes a key and writes it as keygen does.
func newKey(t testing.TB, name string) (*Signer, *Keys) {
	t.Helper()
	secret, public, err := Generate(name)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "k")
	if err := os.WriteFile(path, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := ReadSigner(path)
	if err != nil {
		t.Fatal(err)
	}
	k, err := ReadKeys(public)
	if err != nil {
		t.Fatal(err)
	}
	return s, k
}

func sign(t testing.TB, s *Signer, c Checkpoint) []byte {
	t.Helper()
	b, err := s.Sign(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// read returns all entries of a text.
func read(t testing.TB, k *Keys, text string) (all []Entry) {
	t.Helper()
	err := Read(strings.NewReader(text), k, func(e Entry) error {
		all = append(all, e)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestRead_takes_files_journals_and_syslog(t *testing.T) {
	s, k := newKey(t, "branch-7/breakwater")
	one, two := sign(t, s, sample(41)), sign(t, s, sample(42))
	for name, text := range map[string]string{
		"one":              string(one),
		"two":              string(one) + "\n" + string(two) + "\n",
		"two, close":       string(one) + string(two),
		"two, far apart":   "\n\n" + string(one) + "\n\n\n" + string(two),
		"by mail":          strings.ReplaceAll(string(one)+"\n"+string(two), "\n", "\r\n"),
		"lines":            string(Line(one)) + string(Line(two)),
		"a journal":        `{"@level":"info"}` + "\n" + string(Line(one)) + `{"n":7,"event":"ACCEPTED"}` + "\n" + string(Line(two)),
		"syslog":           "Dec  1 17:00:00 host breakwater[7]: " + string(Line(one)) + "Dec  1 17:01:00 host breakwater[7]: " + string(Line(two)),
		"a note and lines": string(one) + string(Line(two)),
		"a line, no end":   strings.TrimSuffix(string(Line(one)), "\n"),
	} {
		t.Run(name, func(t *testing.T) {
			all := read(t, k, text)
			want := []Checkpoint{sample(41), sample(42)}[:min(len(all), 2)]
			if len(all) == 0 || strings.Contains(text, string(two)) && len(all) != 2 {
				t.Fatalf("%d entries", len(all))
			}
			for i, e := range all {
				if e.Err != nil || e.Checkpoint != want[i] || e.Key != s.Name() {
					t.Errorf("%+v, want %+v by %s", e, want[i], s.Name())
				}
			}
		})
	}
	if line := Line(one); bytes.ContainsFunc(line, func(r rune) bool { return r > '~' }) || bytes.Count(line, lineFeed) != 1 {
		t.Errorf("%q is not one line of ASCII", line)
	}
}

func TestRead_says_what_is_wrong_with_each(t *testing.T) {
	s, k := newKey(t, "branch-7/breakwater")
	other, _ := newKey(t, "branch-7/breakwater")
	good := string(sign(t, s, sample(41)))
	at := strings.Index(good, "\n\n") + 2
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"another key of the same name": {string(sign(t, other, sample(41))), ErrOtherKey},
		"a changed count":              {strings.Replace(good, "\n41\n", "\n40\n", 1), ErrSignature},
		"a changed time":               {strings.Replace(good, "2026", "2025", 1), ErrSignature},
		"a line more":                  {good[:at-1] + "more\n" + good[at-1:], ErrSignature},
		"no signature":                 {good[:at], ErrIncomplete},
		"half a text":                  {good[:20], ErrIncomplete},
		"half a signature":             {good[:len(good)-10], ErrIncomplete},
		"half a signature, then more":  {good[:len(good)-10] + "\n\n", ErrIncomplete},
		"prose":                        {"the cat sat on the mat\n\n— x y\n", ErrIncomplete},
		"not base64":                   {good[:len(good)-20] + "????????????????????\n", ErrMalformed},
		"a control character":          {strings.Replace(good, "time", "ti\x1bme", 1), ErrMalformed},
		"a long line":                  {strings.Repeat("x", 1<<17) + "\n" + good, ErrMalformed},
		"a long note":                  {strings.Repeat("x\n", maxNote) + "\n", ErrMalformed},
		"JSON that breaks off":         {string(Line([]byte(good)))[:100], ErrIncomplete},
		"JSON that is none":            {`{"checkpoint":"\q"}` + "\n", ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			all := read(t, k, c.text+"\n\n"+good) // as it goes on after a power cut
			if len(all) < 1 || !errors.Is(all[0].Err, c.want) {
				t.Fatalf("%+v, want %v", all, c.want)
			}
			if last := all[len(all)-1]; last.Err != nil {
				t.Errorf("the one behind it: %+v", last)
			}
			if all := read(t, k, c.text); len(all) < 1 || all[0].Err == nil {
				t.Errorf("alone: %+v", all)
			}
		})
	}
	t.Run("a text that is signed and no checkpoint", func(t *testing.T) {
		text := sample(41).Text()
		for _, text := range []string{
			"hello\n", "o\n1\n", strings.Replace(text, "\n41\n", "\n041\n", 1), strings.Replace(text, "\n41\n", "\n-1\n", 1),
			strings.Replace(text, "block ", "", 1), strings.Replace(text, "time ", "date ", 1), strings.Replace(text, "=\n", "\n", 1),
			strings.Replace(text, "000042Z", "000042+00:00", 1),
		} {
			signed, err := note.Sign(&note.Note{Text: text}, s.signer)
			if err != nil {
				t.Fatal(err)
			}
			if all := read(t, k, string(signed)); len(all) != 1 || !errors.Is(all[0].Err, ErrMalformed) {
				t.Errorf("%q: %+v", text, all)
			}
		}
		signed, err := note.Sign(&note.Note{Text: text + "of a later version\n"}, s.signer)
		if err != nil {
			t.Fatal(err)
		}
		if all := read(t, k, string(signed)); len(all) != 1 || all[0].Checkpoint != sample(41) {
			t.Errorf("with a line more: %+v", all)
		}
	})
}

// TestRead_never_takes_a_changed_checkpoint_for_the_signed_one changes any byte of a
// file of three.
func TestRead_never_takes_a_changed_checkpoint_for_the_signed_one(t *testing.T) {
	s, k := newKey(t, "branch-7/breakwater")
	var file []byte
	whole := map[Checkpoint]bool{}
	for n := uint64(41); n < 44; n++ {
		whole[sample(n)] = true
		file = append(append(file, sign(t, s, sample(n))...), '\n')
	}
	rapid.Check(t, func(rt *rapid.T) {
		b := bytes.Clone(file)
		switch i := rapid.IntRange(0, len(b)-1).Draw(rt, "at"); rapid.IntRange(0, 2).Draw(rt, "how") {
		case 0:
			b[i] ^= 1 << rapid.IntRange(0, 7).Draw(rt, "bit")
		case 1:
			b = append(b[:i], b[i+1:]...)
		case 2:
			b = b[:i]
		}
		good := 0
		err := Read(bytes.NewReader(b), k, func(e Entry) error {
			if e.Err == nil {
				good++
				if !whole[e.Checkpoint] {
					rt.Errorf("%+v was never signed", e.Checkpoint)
				}
			}
			return nil
		})
		if err != nil || good > 3 {
			rt.Errorf("%v, %d good ones", err, good)
		}
	})
}

func TestRead_takes_several_keys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	a, aPublic, err := Generate("a")
	if err != nil {
		t.Fatal(err)
	}
	b, bPublic, err := Generate("a")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("# until 2026\n\n"+aPublic+"\n"+bPublic), 0o644); err != nil {
		t.Fatal(err)
	}
	k, err := ReadKeys(path)
	if err != nil || len(k.Names()) != 2 {
		t.Fatalf("%v, %v", k, err)
	}
	for i, secret := range []string{a, b} {
		file := filepath.Join(t.TempDir(), "k")
		if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := ReadSigner(file)
		if err != nil {
			t.Fatal(err)
		}
		if all := read(t, k, string(sign(t, s, sample(1)))); len(all) != 1 || all[0].Err != nil || all[0].Key != k.Names()[i] {
			t.Errorf("%+v", all)
		}
	}
}

func TestKeys_are_refused_in_words(t *testing.T) {
	dir := t.TempDir()
	secret, public, err := Generate("k")
	if err != nil {
		t.Fatal(err)
	}
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	signer := func(path string) error { _, err := ReadSigner(path); return err }
	keys := func(text string) error { _, err := ReadKeys(text); return err }
	for want, err := range map[string]error{
		"absent does not exist":                        signer(filepath.Join(dir, "absent")),
		"open can be read by others than its owner":    signer(file("open", secret, 0o640)),
		"public holds no private key":                  signer(file("public", public, 0o600)),
		"empty holds no private key":                   signer(file("empty", "", 0o600)),
		"is not a file":                                signer(dir),
		"big is longer than":                           signer(file("big", strings.Repeat("x", maxKeyFile+1), 0o600)),
		"the key is a private key":                     keys(secret),
		"secret is a private key":                      keys(file("secret", secret, 0o600)),
		"nothing does not exist":                       keys(filepath.Join(dir, "nothing")),
		`prose: "no key" is no public key`:             keys(file("prose", "no key\n", 0o600)),
		"blank holds no key":                           keys(file("blank", "# none\n\n", 0o600)),
		"the name of a key has 1 to 128":               CheckName("two words"),
		"the name of a key has 1 to 128 visible ASCII": CheckName("a+b"),
	} {
		var k *KeyError
		if !errors.As(err, &k) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if err != nil && strings.Contains(err.Error()+k.Advice(), secret[30:]) {
			t.Errorf("it repeats the secret: %v", err)
		}
	}
}

// TestExample: what docs/format.md shows can be computed, and is what we write.
func TestExample(t *testing.T) {
	page, err := os.ReadFile("../../docs/format.md")
	if err != nil {
		t.Fatal(err)
	}
	plain := exampleRecords(t, string(page))
	head := queue.Head{}.Next(1, 2, []byte(plain))
	c := Checkpoint{
		Origin: "breakwater/000102030405060708090a0b0c0d0e0f", N: 2, Head: head,
		Time: time.Date(2026, 12, 1, 17, 0, 0, 0, time.UTC),
	}
	path := filepath.Join(t.TempDir(), "k")
	if err := os.WriteFile(path, []byte(exampleSecret), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := ReadSigner(path)
	if err != nil {
		t.Fatal(err)
	}
	signed := string(sign(t, s, c))
	for _, want := range []string{examplePublic, signed} {
		if !strings.Contains(string(page), want) {
			t.Errorf("docs/format.md lacks\n%s", want)
		}
	}
}

// exampleRecords are the records of the page's example.
func exampleRecords(t *testing.T, page string) string {
	t.Helper()
	_, rest, ok := strings.Cut(page, "```trail\n")
	plain, _, ended := strings.Cut(rest, "```")
	if !ok || !ended {
		t.Fatal("docs/format.md has no block ```trail")
	}
	return plain
}
