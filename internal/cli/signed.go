package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	ucli "github.com/urfave/cli/v2"

	"breakwater/internal/checkpoint"
	"breakwater/internal/control/api"
	"breakwater/queue"
)

// signedHeads are the checkpoints of a file, read in pieces that a verification takes,
// and what the trail says to them. Of a nil one there are none.
type signedHeads struct {
	path string
	key  string // as it was given
	keys *checkpoint.Keys
	f    *os.File
	read chan checkpoint.Entry // what is left of the file
	fail chan error
	ctx  context.Context // of the reading
	stop context.CancelFunc
	part []checkpoint.Entry // of the verification under way
	asOf time.Time          // when the file is said to have been copied; zero: nothing is said

	unmet map[queue.Verdict]int // where Contradictions has the kind of which there is one entry, from 1
	since time.Time             // when the first was signed that lies behind the trail's end

	Checked        int             `json:"checked"`         // whose signature is good
	Found          int             `json:"found"`           // that the trail has
	Trimmed        int             `json:"trimmed"`         // before the first record that was kept: not looked for
	Incomplete     int             `json:"incomplete"`      // that break off: they prove nothing
	Later          int             `json:"later,omitempty"` // behind the file's end, and signed after the time that it is said to be of
	Newest         *provedHead     `json:"newest,omitempty"`
	Contradictions []contradiction `json:"contradictions"`
	More           bool            `json:"more,omitempty"` // contradictions that are not listed
}

// provedHead is the newest checkpoint that the trail has.
type provedHead struct {
	N     uint64   `json:"n"`
	Block uint64   `json:"block"`
	At    api.Time `json:"at"`
	Key   string   `json:"key"`
}

// contradiction is a checkpoint that does not fit, and why. Kind is a verdict, or
// "malformed", "other_key", "signature", "origin". Of those with the same verdict there
// is one entry: a daemon signs one a minute, and all that it signed after a copy have the
// same to say of it.
type contradiction struct {
	Line  int      `json:"line"`
	Kind  string   `json:"kind"`
	N     uint64   `json:"n,omitempty"` // of a verdict: the lowest of them
	At    api.Time `json:"at,omitzero"`
	Key   string   `json:"key,omitempty"`
	Why   string   `json:"why"`
	Count int      `json:"count,omitempty"` // of a verdict: how many checkpoints have it
}

// maxContradictions bounds the list, but for the one entry of each verdict.
const maxContradictions = 100

// signedOf opens the checkpoints that the command names; nil if it names none.
func signedOf(c *ucli.Context) (*signedHeads, error) {
	path, key := c.String("checkpoint"), c.String("key")
	asOf, err := timeFlag(c, "as-of")
	switch {
	case err != nil:
		return nil, err
	case !asOf.IsZero() && (path == "" || c.String("file") == ""):
		return nil, usageFor(c, "--as-of says when a copy was made: it is for --file and --checkpoint")
	case path == "" && key == "":
		return nil, nil
	case path == "":
		return nil, usageFor(c, "--key is for --checkpoint")
	case key == "":
		return nil, usageFor(c, "--checkpoint needs --key: whose signatures are to count")
	}
	keys, err := checkpoint.ReadKeys(key)
	if err != nil {
		return nil, keyFailure(c, "key", err)
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usageFor(c, "--checkpoint: %s does not exist", path)
	}
	if err != nil {
		return nil, fmt.Errorf("read the checkpoints: %w", err)
	}
	if info, err := f.Stat(); err == nil && info.IsDir() { // a pipe may be one of the shell's
		_ = f.Close() // nothing was read
		return nil, usageFor(c, "--checkpoint: %s is a folder: name the file in it", path)
	}
	s := readSigned(c.Context, path, f, keys)
	s.key, s.asOf = key, asOf
	return s, nil
}

// readSigned begins to read checkpoints, until the file or ctx ends or nobody wants more.
func readSigned(ctx context.Context, path string, f *os.File, keys *checkpoint.Keys) *signedHeads {
	s := &signedHeads{
		path: path, keys: keys, f: f, Contradictions: []contradiction{}, unmet: map[queue.Verdict]int{},
		read: make(chan checkpoint.Entry), fail: make(chan error, 1),
	}
	s.ctx, s.stop = context.WithCancel(ctx)
	context.AfterFunc(s.ctx, func() { _ = f.Close() }) // which ends a read of a pipe where nobody writes
	go s.scan()
	return s
}

// scan reads the file and hands over what it finds.
func (s *signedHeads) scan() {
	defer close(s.read)
	err := checkpoint.Read(s, s.keys, func(e checkpoint.Entry) error {
		select {
		case s.read <- e:
			return nil
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	})
	if s.ctx.Err() != nil {
		err = &failure{status: exitFailed, err: errors.New("interrupted"), hint: "nothing was verified"}
	}
	s.fail <- err
}

// Read reads the file, until it is stopped: the file may have no end.
func (s *signedHeads) Read(b []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.f.Read(b)
}

// close ends the reading.
func (s *signedHeads) close() {
	if s == nil {
		return
	}
	s.stop()
	for range s.read { // until scan has left
	}
}

// next returns the heads for the next verification, at most so many, and whether there
// may be more for another one.
func (s *signedHeads) next(most int) (heads []api.Witness, more bool, err error) {
	if s == nil {
		return nil, false, nil
	}
	s.part = s.part[:0]
	for e := range s.read {
		switch {
		case errors.Is(e.Err, checkpoint.ErrIncomplete):
			s.Incomplete++
			continue
		case e.Err != nil:
			s.contradict(&e, kindOf(e.Err), e.Err.Error())
			continue
		}
		s.Checked++
		s.part = append(s.part, e)
		h := e.Checkpoint.Head
		heads = append(heads, api.Witness{N: e.Checkpoint.N, Block: h.Block, Head: h.Hash.String()})
		if len(heads) == most {
			return heads, true, nil
		}
	}
	return heads, false, <-s.fail
}

// kindOf names what is wrong with a checkpoint itself.
func kindOf(err error) string {
	switch {
	case errors.Is(err, checkpoint.ErrOtherKey):
		return "other_key"
	case errors.Is(err, checkpoint.ErrSignature):
		return "signature"
	}
	return "malformed"
}

// judge takes what the trail says to the heads that next returned.
func (s *signedHeads) judge(v *api.Verification, verdicts []string) {
	if s == nil {
		return
	}
	for i := range s.part {
		e := &s.part[i]
		verdict := queue.Verdict(verdicts[i])
		switch {
		case e.Checkpoint.Origin != v.Audit.Origin:
			s.contradict(e, "origin", fmt.Sprintf("it is of the store %s, and this is %s", e.Checkpoint.Origin, v.Audit.Origin))
		case verdict == queue.WitnessTrimmed:
			s.Trimmed++
		case verdict == queue.WitnessCut && !s.asOf.IsZero() && e.Checkpoint.Time.After(s.asOf):
			s.Later++
		case verdict != queue.WitnessFound:
			s.miss(e, verdict, v)
		default:
			s.found(e)
		}
	}
}

// found takes a checkpoint that the trail has.
func (s *signedHeads) found(e *checkpoint.Entry) {
	s.Found++
	c := &e.Checkpoint
	if s.Newest == nil || c.N >= s.Newest.N {
		s.Newest = &provedHead{N: c.N, Block: c.Head.Block, At: api.Time{Time: c.Time}, Key: e.Key}
	}
}

// miss notes one that the trail does not have.
func (s *signedHeads) miss(e *checkpoint.Entry, verdict queue.Verdict, v *api.Verification) {
	c := &e.Checkpoint
	if verdict == queue.WitnessCut && (s.since.IsZero() || c.Time.Before(s.since)) {
		s.since = c.Time
	}
	at := s.unmet[verdict]
	if at == 0 {
		s.Contradictions = append(s.Contradictions, contradiction{})
		at = len(s.Contradictions)
		s.unmet[verdict] = at
	}
	one := &s.Contradictions[at-1]
	if one.Count == 0 || c.N < one.N {
		*one = contradiction{
			Line: e.Line, Kind: string(verdict), N: c.N, At: api.Time{Time: c.Time}, Key: e.Key,
			Why: contradictionText(verdict, c, v), Count: one.Count,
		}
	}
	one.Count++
}

// missed is how many have that verdict.
func (s *signedHeads) missed(verdict queue.Verdict) int {
	if at := s.unmet[verdict]; at > 0 {
		return s.Contradictions[at-1].Count
	}
	return 0
}

// contradict notes one that does not fit.
func (s *signedHeads) contradict(e *checkpoint.Entry, kind, why string) {
	if len(s.Contradictions)-len(s.unmet) == maxContradictions {
		s.More = true
		return
	}
	s.Contradictions = append(s.Contradictions, contradiction{
		Line: e.Line, Kind: kind, N: e.Checkpoint.N, At: api.Time{Time: e.Checkpoint.Time}, Key: e.Key, Why: why,
	})
}

// contradictionText says in words what the trail makes of a signed head.
func contradictionText(verdict queue.Verdict, c *checkpoint.Checkpoint, v *api.Verification) string {
	switch verdict {
	case queue.WitnessCut:
		return fmt.Sprintf("the trail ends at record %s: its end was cut off, or this is an older copy", number(v.Audit.Records))
	case queue.WitnessDiffers:
		return fmt.Sprintf("the first %s records are not those that were signed: the trail was written anew, or another copy was restored over it", number(c.N))
	case queue.WitnessUnproven:
		return fmt.Sprintf("the chain breaks before it, behind block %s: nothing can be said of what follows", number(v.Audit.Block))
	}
	return "the trail says " + string(verdict)
}

// sound reports whether no checkpoint contradicts the trail.
func (s *signedHeads) sound() bool { return s == nil || len(s.Contradictions) == 0 }

// empty reports whether the file had nothing that is, or looks like, a checkpoint.
func (s *signedHeads) empty() bool {
	return s.Checked == 0 && len(s.Contradictions) == 0
}
