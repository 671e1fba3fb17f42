package cli

import (
	"errors"
	"fmt"
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
"end" line of an enqueue connection and in what enqueue prints. A head that is not
in the chain is a finding.`,
			[]string{"0  everything is as it should be", status1, status2, "3  something is wrong, or the witness was not found"},
			"breakwater audit verify", "breakwater audit verify --file copy.db",
			"breakwater audit verify --witness 17:9f2c…"),
		Flags: []ucli.Flag{
			fileFlag(),
			&ucli.StringFlag{Name: "witness", Usage: "find this `BLOCK:HEAD` in the chain"},
		},
		Action: e.verify,
	}
}

func (e *env) verify(c *ucli.Context) error {
	if err := noMoreArgs(c); err != nil {
		return err
	}
	ask := api.VerifyAct{Witness: c.String("witness")}
	if h, ok := queue.ParseHead(ask.Witness); ask.Witness != "" && (!ok || h.Block == 0) {
		return usageFor(c, "--witness %q is not BLOCK:HEAD, as an end line gives them", ask.Witness)
	}
	var v api.Verification
	err := e.ask(c, func(control *client.Control) (err error) {
		v, err = control.Verify(c.Context, ask)
		return err
	})
	if err != nil {
		return foundDamaged(err)
	}
	if c.Bool("json") {
		err = e.printJSON(v)
	} else {
		err = write(e.Stdout, certificate(c, &v, time.Now()))
	}
	if !v.Sound {
		return quiet(exitFindings) // also when nobody reads the certificate
	}
	return err
}

// foundDamaged: a copy that is too damaged to be opened is what a verification was
// to find, not a failure to look.
func foundDamaged(err error) error {
	var c coded
	if errors.As(err, &c) && (c.Code() == "STORE_DAMAGED" || c.Code() == "STORE_TRUNCATED") {
		return &failure{status: exitFindings, err: err, hint: "compare it with the original, or take another copy"}
	}
	return err
}

// certificate is the verification for people.
func certificate(c *ucli.Context, v *api.Verification, now time.Time) []byte {
	of := "the running breakwater"
	if file := c.String("file"); file != "" {
		of = file
	}
	result := "sound"
	if !v.Sound {
		result = "NOT SOUND"
	}
	rows := [][]string{{"verified", of}, {"store", v.Audit.Origin}, {"at", moment(api.Time{Time: now})}}
	rows = append(rows, chainRows(v)...)
	rows = append(rows, balanceRows(v)...)
	for _, event := range queue.Events {
		if n := v.Events[string(event)]; n > 0 {
			rows = append(rows, []string{"", fmt.Sprintf("%-18s %s", event, number(n))})
		}
	}
	if witness := c.String("witness"); witness != "" {
		rows = append(rows, []string{"witness", witness + " " + verdictText(v.Verdicts[0])})
	}
	rows = append(rows, []string{"result", result})
	text := table(rows)
	proved, not := proofs(c, v)
	text = sentences(text, "proved:", proved)
	text = sentences(text, "not proved:", not)
	for _, f := range v.Findings {
		text = append(append(text, oneLine(findingText(&f))...), '\n')
	}
	if v.More {
		text = append(text, "there are more findings than are listed\n"...)
	}
	return text
}

// chainRows say what was read.
func chainRows(v *api.Verification) [][]string {
	rows := [][]string{{"chain", fmt.Sprintf("%s %s, %s %s", number(v.Blocks), plural(v.Blocks, "block", "blocks"),
		number(v.Records), plural(v.Records, "record", "records"))}}
	if v.First != nil && v.Last != nil {
		rows = append(rows,
			[]string{"first", fmt.Sprintf("record %s, %s", number(v.First.N), moment(v.First.TS))},
			[]string{"last", fmt.Sprintf("record %s, %s", number(v.Last.N), moment(v.Last.TS))})
	}
	return append(rows, []string{"head", fmt.Sprintf("%d:%s", v.Audit.Block, v.Audit.Head)})
}

// balanceRows say what came in and what became of it.
func balanceRows(v *api.Verification) [][]string {
	b := v.Balance
	if b == nil {
		return [][]string{{"accepted", "not counted: see below"}}
	}
	return [][]string{
		{"accepted", fmt.Sprintf("%s = %s decided + %s dead + %s discarded + %s open",
			number(b.Accepted), number(b.Decided), number(b.Dead), number(b.Discarded), number(b.Open))},
		{"quarantined", fmt.Sprintf("%s = %s dead + %s discarded + %s accepted after a replay",
			number(b.Quarantined), number(b.QuarantinedDead), number(b.QuarantinedDiscarded), number(b.QuarantinedAccepted))},
		{"duplicates", number(b.DuplicatesSkipped) + " skipped"},
		{"deliveries", number(b.Deliveries)},
	}
}

// verdictText says in words what the chain says to a head.
func verdictText(verdict string) string {
	switch queue.Verdict(verdict) {
	case queue.WitnessFound:
		return "found"
	case queue.WitnessDiffers:
		return "NOT FOUND: the trail has another block of this number"
	case queue.WitnessCut:
		return "NOT FOUND: the trail ends before it"
	case queue.WitnessUnproven:
		return "NOT FOUND: the chain breaks before it"
	case queue.WitnessTrimmed:
		return "not looked for: records up to there were trimmed"
	}
	return verdict
}

// proofs says what the verification proved, and what it did not.
func proofs(c *ucli.Context, v *api.Verification) (proved, not []string) {
	if !v.Sound {
		return nil, []string{"anything that the findings below concern, and nothing behind a break of the chain"}
	}
	proved = append(proved, "every record follows from the one before it: none in between was changed, added or left out")
	if v.UntracedFrom == 0 {
		proved = append(proved, "no seq is missing; nothing was decided twice, handed out to two owners at once, or out of the order of its key",
			"every stored line is the one that was accepted")
	} else {
		not = append(not, fmt.Sprintf("order, holders and counts from record %s on: too many exceptions were open at once; verify a copy with --file",
			number(v.UntracedFrom)))
	}
	if c.String("file") != "" {
		proved = append(proved, "what is stored is what the trail says")
	} else {
		not = append(not, "that what is stored is what the trail says: a copy shows it, with --file")
	}
	if w := c.String("witness"); w != "" && queue.Verdict(v.Verdicts[0]) == queue.WitnessFound {
		block := number(headBlock(w))
		proved = append(proved, fmt.Sprintf("the trail up to block %s is the one that whoever has this head was shown", block))
		not = append(not, fmt.Sprintf("that nothing was cut off or written anew after block %s", block))
	} else {
		not = append(not, "that nothing was cut off at the end, and that not all of it was written anew: --witness shows it")
	}
	return proved, append(not, "that times, names and outcomes are true: the trail says who said so")
}

// headBlock is the block of a head that has been checked.
func headBlock(witness string) uint64 {
	h, _ := queue.ParseHead(witness)
	return h.Block
}

// sentences adds a list with its heading; nothing for an empty one.
func sentences(text []byte, heading string, list []string) []byte {
	if len(list) == 0 {
		return text
	}
	text = append(append(text, heading...), '\n')
	for _, s := range list {
		text = append(append(append(text, "  "...), oneLine(s)...), '\n')
	}
	return text
}

// findingText says what is wrong, and where.
func findingText(f *api.Finding) string {
	text := "wrong: "
	if f.Seq != 0 {
		text += fmt.Sprintf("seq %d: ", f.Seq)
	}
	text += f.What
	if f.N != 0 {
		text += fmt.Sprintf(" (record %d)", f.N)
	}
	if f.Block != 0 {
		text += fmt.Sprintf(" (block %d)", f.Block)
	}
	return text
}
