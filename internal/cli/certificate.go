package cli

import (
	"fmt"
	"time"

	"breakwater/internal/control/api"
	"breakwater/queue"
)

// certificate is the verification for people.
func (v *verifying) certificate(now time.Time) []byte {
	of, result := v.file, "sound"
	if of == "" {
		of = "the running breakwater"
	}
	if !v.sound() {
		result = "NOT SOUND"
	}
	rows := [][]string{{"verified", of}, {"store", v.Audit.Origin}, {"at", moment(api.Time{Time: now})}}
	rows = append(append(rows, v.chainRows()...), v.balanceRows()...)
	for _, event := range queue.Events {
		if n := v.Events[string(event)]; n > 0 {
			rows = append(rows, []string{"", fmt.Sprintf("%-18s %s", event, number(n))})
		}
	}
	for _, w := range v.witnesses {
		rows = append(rows, []string{"witness", w.text + " " + verdictText(w.verdict)})
	}
	if v.signed != nil {
		rows = append(rows, []string{"checkpoints", v.signed.text()})
	}
	rows = append(rows, []string{"result", result})
	text := table(rows)
	proved, not := v.proofs()
	text = sentences(text, "proved:", proved)
	text = sentences(text, "not proved:", not)
	for i := range v.Findings {
		text = append(append(text, oneLine(findingText(&v.Findings[i]))...), '\n')
	}
	if v.More {
		text = append(text, "there are more findings than are listed\n"...)
	}
	return v.signed.appendContradictions(text)
}

// chainRows say what was read.
func (v *verifying) chainRows() [][]string {
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
func (v *verifying) balanceRows() [][]string {
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
		return "not looked for: the records up to there were trimmed"
	}
	return verdict
}

// proofs says what the verification proved, and what it did not.
func (v *verifying) proofs() (proved, not []string) {
	if len(v.Findings) > 0 {
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
	if v.First != nil && v.First.N > 1 {
		not = append(not, fmt.Sprintf("what the records before %s said: retention has removed them, and an archive may have them; what of them still held was copied",
			number(v.First.N)))
	}
	if v.file != "" {
		proved = append(proved, "what is stored is what the trail says")
	} else {
		not = append(not, "that what is stored is what the trail says: a copy shows it, with --file")
	}
	p, n := v.outsideProofs()
	return append(proved, p...), append(append(not, n...), "that times, names and outcomes are true: the trail says who said so")
}

// outsideProofs says what heads that were kept outside the file prove.
func (v *verifying) outsideProofs() (proved, not []string) {
	witnessed := uint64(0) // the last block of which a head was found
	for i := range v.witnesses {
		if w := &v.witnesses[i]; w.found() {
			witnessed = max(witnessed, w.head.Block)
		}
	}
	if witnessed > 0 {
		proved = append(proved, fmt.Sprintf("the trail up to block %s is the one that whoever has this head was shown", number(witnessed)))
		not = append(not, fmt.Sprintf("that nothing was cut off or written anew after block %s", number(witnessed)))
	}
	if s := v.signed; s != nil && s.Newest != nil {
		proved = append(proved, fmt.Sprintf("the trail holds exactly the first %s records that the key %s signed on %s",
			number(s.Newest.N), s.Newest.Key, moment(s.Newest.At)))
		after := fmt.Sprintf("that nothing was cut off or written anew after record %s", number(s.Newest.N))
		if s.missed(queue.WitnessCut)+s.Later == 0 {
			after += ": no checkpoint says anything of it"
		}
		not = append(not, after,
			"that whoever has the private key signed no other trail")
	}
	if witnessed == 0 && (v.signed == nil || v.signed.Newest == nil) {
		not = append(not, "that nothing was cut off at the end, and that not all of it was written anew: --checkpoint and --witness show it")
	}
	if s := v.signed; s != nil && s.Later > 0 {
		not = append(not, fmt.Sprintf("that the file is a copy from %s, as --as-of says, and not one that was cut off there: %s, which %s signed later, would show it",
			moment(api.Time{Time: s.asOf}), counted(s.Later, "checkpoint", "checkpoints"), plural(s.Later, "was", "were")))
	}
	if s := v.signed; s != nil && s.Trimmed > 0 {
		not = append(not, fmt.Sprintf("what %s %s of records that were trimmed: an archive from before can show it",
			number(s.Trimmed), plural(s.Trimmed, "checkpoint says", "checkpoints say")))
	}
	return proved, not
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
