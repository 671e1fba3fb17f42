package checkpoint

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"golang.org/x/mod/sumdb/note"
)

const (
	// maxKeyFile bounds a file of keys, in bytes: some hundred of them.
	maxKeyFile = 64 << 10
	// maxName bounds the name of a key, in bytes.
	maxName = 128
	// private begins a private key.
	private = "PRIVATE+KEY+"
)

// KeyError is a key that cannot be used, and what to do about it. It never repeats
// what a private key's file holds.
type KeyError struct {
	What, Hint string
	Public     bool // it is a public key where a private one belongs
}

// Error says what is wrong with the key.
func (e *KeyError) Error() string { return e.What }

// Advice says what to do about it.
func (e *KeyError) Advice() string { return e.Hint }

func keyErrorf(hint, format string, args ...any) error {
	return &KeyError{What: fmt.Sprintf(format, args...), Hint: hint}
}

// Generate makes a key of this name: the private one, and the public one that checks
// its signatures, each as one line of text without its end.
func Generate(name string) (secret, public string, err error) {
	if err := CheckName(name); err != nil {
		return "", "", err
	}
	secret, public, err = note.GenerateKey(rand.Reader, name)
	if err != nil {
		return "", "", fmt.Errorf("make a key: %w", err)
	}
	return secret, public, nil
}

// CheckName wants a name that signed notes can carry, and every log and terminal:
// visible ASCII, no plus signs.
func CheckName(name string) error {
	bad := func(r rune) bool { return r <= ' ' || r > '~' || r == '+' }
	if name == "" || len(name) > maxName || strings.ContainsFunc(name, bad) {
		return keyErrorf("like branch-7.example.com/breakwater", "the name of a key has 1 to %d visible ASCII characters and no plus signs", maxName)
	}
	return nil
}

// Signer signs checkpoints.
type Signer struct {
	signer note.Signer
}

// ReadSigner reads a private key from its file, which only its owner may be able to
// read. One of root's that the group may read is taken too by a process that is not
// root: that is how a service manager hands a credential over.
func ReadSigner(path string) (*Signer, error) {
	text, info, err := readKeys(path)
	if err != nil {
		return nil, err
	}
	text = strings.TrimSpace(text)
	if _, err := note.NewVerifier(text); err == nil {
		return nil, &KeyError{
			What: path + " holds no private key", Hint: "it is the public key, which checks signatures: give the private one", Public: true,
		}
	}
	if others := info.Mode().Perm() & 0o077; others != 0 && !credential(info) {
		return nil, keyErrorf("chmod 600, and make another key if somebody may have read this one",
			"%s can be read by others than its owner", path)
	}
	s, err := note.NewSigner(text)
	if err != nil {
		return nil, keyErrorf(`make one with "breakwater audit keygen"`, "%s holds no private key", path)
	}
	return &Signer{signer: s}, nil
}

func credential(info fs.FileInfo) bool {
	owner, ok := info.Sys().(*syscall.Stat_t)
	return ok && owner.Uid == 0 && os.Geteuid() != 0 && info.Mode().Perm()&0o077 == 0o040
}

// readKeys reads a file that is small and is a file.
func readKeys(path string) (text string, info fs.FileInfo, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0) // a FIFO must not block
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, keyErrorf(`make one with "breakwater audit keygen"`, "%s does not exist", path)
	}
	if err != nil {
		return "", nil, fmt.Errorf("read the key: %w", err)
	}
	defer f.Close() // read only: nothing can be lost
	if info, err = f.Stat(); err != nil {
		return "", nil, fmt.Errorf("read the key: %w", err)
	}
	if !info.Mode().IsRegular() {
		return "", nil, keyErrorf("", "%s is not a file", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err != nil {
		return "", nil, fmt.Errorf("read the key: %w", err)
	}
	if len(b) > maxKeyFile {
		return "", nil, keyErrorf("", "%s is longer than %d bytes", path, maxKeyFile)
	}
	return string(b), info, nil
}

// Name returns the key's name and the hash that tells it from others of that name,
// as certificates show it.
func (s *Signer) Name() string { return keyName(s.signer.Name(), s.signer.KeyHash()) }

func keyName(name string, hash uint32) string { return fmt.Sprintf("%s+%08x", name, hash) }

// Sign returns the checkpoint as a signed note.
func (s *Signer) Sign(c Checkpoint) ([]byte, error) {
	b, err := note.Sign(&note.Note{Text: c.Text()}, s.signer)
	if err != nil {
		return nil, fmt.Errorf("sign a checkpoint: %w", err)
	}
	return b, nil
}

// Keys are public keys: a checkpoint counts if one of them has signed it.
type Keys struct {
	known note.Verifiers
	names []string
}

// Names returns each key's name and hash.
func (k *Keys) Names() []string { return k.names }

// ReadKeys takes a public key as it is, or the path of a file with some, one a line;
// blank lines and lines that begin with # are for people.
func ReadKeys(keyOrPath string) (*Keys, error) {
	if v, err := note.NewVerifier(keyOrPath); err == nil {
		return &Keys{known: note.VerifierList(v), names: []string{keyName(v.Name(), v.KeyHash())}}, nil
	}
	if strings.HasPrefix(keyOrPath, private) {
		return nil, isPrivate("the key")
	}
	text, _, err := readKeys(keyOrPath)
	if k := (*KeyError)(nil); errors.As(err, &k) && k.Hint != "" {
		k.Hint = "give the public key as keygen printed it, or its file, which ends in " + PublicSuffix
	}
	if err != nil {
		return nil, err
	}
	var list []note.Verifier
	k := &Keys{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if strings.HasPrefix(line, private) {
			return nil, isPrivate(keyOrPath)
		}
		v, err := note.NewVerifier(line)
		if err != nil {
			return nil, keyErrorf("a public key is a line NAME+HASH+KEY, as keygen prints it", "%s: %q is no public key", keyOrPath, excerpt(line))
		}
		list = append(list, v)
		k.names = append(k.names, keyName(v.Name(), v.KeyHash()))
	}
	if len(list) == 0 {
		return nil, keyErrorf("", "%s holds no key", keyOrPath)
	}
	k.known = note.VerifierList(list...)
	return k, nil
}

// isPrivate keeps a private key from where it has no business.
func isPrivate(what string) error {
	return keyErrorf("signatures are checked with the public one, in the file .pub beside it; the private one stays where it signs",
		"%s is a private key", what)
}

// excerpt is the beginning of a text, for an error.
func excerpt(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
