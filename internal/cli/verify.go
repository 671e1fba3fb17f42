package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	ucli "github.com/urfave/cli/v2"

	"breakwater/internal/client"
	"breakwater/internal/control/api"
	"breakwater/queue"
)

func (e *env) verifyCommand() *ucli.Command {
	return &ucli.Command{
		Name: "verify", Usage: "check that the trail is whole and that its records keep the promises",
		Description: manual(`
Reads the whole audit trail and checks that every block follows from the one before
(a chain of hashes), that no seq is missing, that no exception was dispatched out of
order, to two owners at once or while it was to wait, decided twice or dropped, and
that every stored line is the one that was accepted. It prints a certificate: what
came in and what became of it, what is proved and what is not, and what was found.

Of a copy (--file) it also checks that what is stored is what the trail says. A live
file is checked beside the running breakwater, up to the head of the moment; if more
than 250,000 exceptions were open at once, only its chain: verify a copy then.

A trail that was cut at its end is whole in itself. --witness shows that it was not:
give it a head that somebody else was shown, as BLOCK:HASH, which stands in every
"end" line of an enqueue connection and in what enqueue prints. It may be repeated,
and every head is looked for. One that is not in the chain is a finding.

--checkpoint does the same for signed heads: FILE has one or many, as "checkpoint" in
the configuration writes them (or a log that has them on its lines), and all are
checked. KEY is the public key, or a file with one or several, one a line. What they
prove is that the file holds exactly the records that were signed; nothing proves what
came after the newest of them. A checkpoint that breaks off (the power went out) is
counted and proves nothing.

A copy or archive does not hold what was signed after it was made, and cannot be told
from one whose end was cut off: that is a finding, unless --as-of says of when the copy
is. Then only checkpoints that were signed until that moment must be found; those that
were signed later still may not contradict what it holds. Take the moment from whoever
made the copy, not from the copy.`,
			[]string{"0  everything is as it should be", status1, status2, "3  something is wrong, or a witness or checkpoint contradicts the trail"},
			"breakwater audit verify", "breakwater audit verify --file copy.db",
			"breakwater audit verify --witness 17:9f2c…",
			"breakwater audit verify --file copy.db --checkpoint checkpoints.txt --key checkpoint.key.pub",
			"breakwater audit verify --file a.db --checkpoint c.txt --key k.pub --as-of 2026-11-30"),
		Flags: []ucli.Flag{
			fileFlag(),
			&ucli.StringSliceFlag{Name: "witness", Usage: "find this `BLOCK:HEAD` in the chain; may be repeated"},
			&ucli.StringFlag{Name: "checkpoint", TakesFile: true, Usage: "find the signed heads in `FILE` in the chain"},
			&ucli.StringFlag{Name: "key", TakesFile: true, Usage: "check their signatures with `KEY`, a public key or a file of such"},
			&ucli.StringFlag{Name: "as-of", Usage: "the copy is of this `TIME`: what was signed later need not be in it"},
		},
		Action: e.verify,
	}
}

func (e *env) verify(c *ucli.Context) error {
	if err := noMoreArgs(c); err != nil {
		return err
	}
	v := verifying{file: c.String("file")}
	var err error
	if v.witnesses, err = witnessesOf(c); err != nil {
		return err
	}
	if v.signed, err = signedOf(c); err != nil {
		return err
	}
	defer v.signed.close()
	if err := e.ask(c, func(control *client.Control) error { return v.ask(c.Context, control) }); err != nil {
		return foundDamaged(err)
	}
	if v.signed != nil && v.signed.empty() {
		return usageFor(c, "%s holds no whole checkpoint", v.signed.path)
	}
	if c.Bool("json") {
		err = e.printJSON(v.document())
	} else {
		err = write(e.Stdout, append(v.certificate(time.Now()), v.hints(e.aim)...))
	}
	if !v.sound() {
		return quiet(exitFindings) // also when nobody reads the certificate
	}
	return err
}

// maxWitnesses bounds the heads on a command line, which leave the rest of what one
// verification takes to checkpoints.
const maxWitnesses = 1000

// witnessesOf returns the heads that the command names.
func witnessesOf(c *ucli.Context) (all []witness, err error) {
	for _, text := range c.StringSlice("witness") {
		h, ok := queue.ParseHead(text)
		if !ok || h.Block == 0 {
			return nil, usageFor(c, "--witness %q is not BLOCK:HEAD, as an end line gives them", text)
		}
		all = append(all, witness{text: text, head: h})
	}
	if len(all) > maxWitnesses {
		return nil, usageFor(c, "--witness is given %d times, at most %d", len(all), maxWitnesses)
	}
	return all, nil
}

// foundDamaged: a copy that is too damaged to be opened is what a verification was
// to find, not a failure to look.
func foundDamaged(err error) error {
	var c coded
	if errors.As(err, &c) && slices.Contains([]string{"STORE_DAMAGED", "STORE_TRUNCATED", "STORE_EMPTY"}, c.Code()) {
		f := badCopy(err).(*failure)
		f.status = exitFindings
		return f
	}
	return err
}

// verifying is one verification: what was asked, and what was found.
type verifying struct {
	file      string // a copy; "": the running breakwater
	witnesses []witness
	signed    *signedHeads

	api.Verification
}

// witness is a head that somebody was shown, and what the trail says to it.
type witness struct {
	text    string // as it was given
	head    queue.Head
	verdict string
}

func (w *witness) found() bool { return queue.Verdict(w.verdict) == queue.WitnessFound }

// ask verifies, and looks for the heads that are given: in one go, unless there are
// more checkpoints than one verification takes.
func (v *verifying) ask(ctx context.Context, control *client.Control) error {
	own := make([]api.Witness, len(v.witnesses))
	for i, w := range v.witnesses {
		own[i] = api.Witness{Block: w.head.Block, Head: w.head.Hash.String()}
	}
	for more := true; more; {
		var signed []api.Witness
		var err error
		if signed, more, err = v.signed.next(api.MaxWitnesses - len(own)); err != nil {
			return err
		}
		if v.Verification, err = control.Verify(ctx, api.VerifyAct{Witnesses: append(slices.Clip(own), signed...)}); err != nil {
			return err
		}
		verdicts := v.Verdicts
		if len(verdicts) != len(own)+len(signed) {
			return fmt.Errorf("%d heads were asked for, %d were answered", len(own)+len(signed), len(verdicts))
		}
		for i := range own {
			v.witnesses[i].verdict = verdicts[i]
		}
		v.signed.judge(&v.Verification, verdicts[len(own):])
	}
	return nil
}

// sound reports whether nothing is wrong, and nothing contradicts the trail. What the
// answer says of it counts a checkpoint that may be missing.
func (v *verifying) sound() bool {
	if v.signed == nil {
		return v.Sound
	}
	contradicted := slices.ContainsFunc(v.witnesses, func(w witness) bool { return queue.Verdict(w.verdict).Contradicts() })
	return len(v.Findings) == 0 && !contradicted && v.signed.sound()
}

// verifyDocument is the verification for programs.
type verifyDocument struct {
	api.Verification
	Checkpoints *signedHeads `json:"checkpoints,omitempty"`
}

func (v *verifying) document() verifyDocument {
	d := verifyDocument{Verification: v.Verification, Checkpoints: v.signed}
	d.Sound = v.sound()
	if v.signed != nil { // each has its own line there
		d.Verdicts, d.WitnessFound = nil, nil
		if len(v.witnesses) > 0 {
			all := true
			for i := range v.witnesses {
				w := &v.witnesses[i]
				d.Verdicts, all = append(d.Verdicts, w.verdict), all && w.found()
			}
			d.WitnessFound = &all
		}
	}
	return d
}
