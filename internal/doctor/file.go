package doctor

import (
	"cmp"
	"time"
)

// fileOpen says why the file cannot be opened. A running breakwater has it open.
func fileOpen(f *Facts, s *sheet) {
	switch {
	case f.Mode == Running:
	case f.File.Path == "":
		s.skip(f.Config.Why)
	case f.File.Absent:
		s.find(Note, f.File.Path, "breakwater serve makes it; if there should be one, check data_dir and store.path (breakwater config show)", "there is no store yet")
	case f.File.Held:
		s.find(Smell, f.File.Path, "its log says how far a start is; if it runs with another configuration, name that one with --config",
			"a breakwater has the file open (%v), and nothing answers on the control socket", f.File.Refused)
	case f.File.Refused != nil:
		s.find(Wrong, f.File.Path, f.File.RefusedHint, "%v (%s)", f.File.Refused, f.File.RefusedCode)
	case !f.File.Opened:
		s.skip(f.File.Why)
	}
}

// unopened reports that a check of the file's inside has nothing to see, and writes
// down why.
func unopened(f *Facts, s *sheet) bool {
	if f.File.Opened {
		return false
	}
	switch {
	case f.File.Path == "":
		s.skip(f.Config.Why)
	case f.File.Absent:
		s.needless()
	case f.File.Refused != nil && !f.File.Held:
		s.skip("the file cannot be opened, see file.open")
	default:
		s.skip(f.File.Why)
	}
	return true
}

// lately is how long it is worth knowing that a store was made.
const lately = 24 * time.Hour

// newFile says that the file was made, new and empty, a short time ago: it may stand
// in for one that lies elsewhere.
func newFile(f *Facts, s *sheet) {
	switch {
	case f.Mode == Copy:
		s.needless()
	case f.Mode == Stopped && unopened(f, s):
	case f.First == nil:
		s.skip(cmp.Or(f.FutureWhy, "the trail has no record"))
	case f.First.N == 1 && f.Now.Sub(f.First.TS) < lately:
		s.find(Note, f.File.Path, "if there was one before: stop breakwater, see whether its disk is mounted, and data_dir and store.path (breakwater config show)",
			"the store was made new and empty on %s: it knows nothing of before", stamp(f.First.TS))
	}
}

// fileFormat says that the next start migrates the file: there is no way back.
func fileFormat(f *Facts, s *sheet) {
	if f.Mode == Running || unopened(f, s) {
		return // what runs has it in its own version's format
	}
	if f.File.Older {
		s.find(Note, f.File.Path, "keep an archive that the version before can read", "it has format %d: the next start migrates it", f.File.Format)
	}
}

// newestCommit says that one of the two pages that name the newest commit is spoilt. A
// start says so in its log, and asks the witness; a copy has none.
func newestCommit(f *Facts, s *sheet) {
	if f.Mode == Running || unopened(f, s) || f.File.Fallback == "" {
		return // its start has asked the witness, and its commits have written both anew
	}
	if f.Mode == Copy {
		s.find(Wrong, f.File.Path, "compare its head with a witness, breakwater audit verify --witness BLOCK:HEAD, or take another copy", "%s", f.File.Fallback)
		return
	}
	s.find(Smell, f.File.Path, "the next start compares the file with its witness, as file.witness does, and goes on if nothing is missing", "%s", f.File.Fallback)
}

// fileStop says how the last process ended.
func fileStop(f *Facts, s *sheet) {
	if f.Mode == Copy {
		s.needless() // a copy is of a moment in a life
		return
	}
	if unopened(f, s) || f.File.Clean {
		return
	}
	if f.File.Marked {
		s.needless() // an archive in the store's place is such a copy, too
		return
	}
	if f.Mode == Running {
		s.find(Smell, f.File.Path, "its log and the system's (journalctl -u breakwater, dmesg) say why; stop it with SIGTERM and time to drain",
			"the process before this one was killed, or its host lost power: the file was checked in full and nothing that was answered is lost")
		return
	}
	s.find(Smell, f.File.Path, "its log and the system's (journalctl -u breakwater, dmesg) say why; the next start checks the whole file and takes longer",
		"the last process did not close the file: it was killed, or its host lost power")
}

// witness compares the file with what its witness has seen.
func witness(f *Facts, s *sheet) {
	const restore = "put the newest file back; only if this one is meant, breakwater serve --restore, which voids all leases and starts paused"
	if f.Mode == Running {
		livingWitness(f, s)
		return
	}
	if unopened(f, s) || f.File.Origin == nil {
		return
	}
	switch {
	case f.File.Marked && f.Mode == Copy:
		s.find(Note, f.File.Path, "breakwater serve --restore takes it into service", "it is marked as a copy")
	default:
		s.find(Wrong, f.File.Path, restore, "breakwater serve refuses it: %v", f.File.Origin)
	}
}

// livingWitness compares a running store with its witness, which was read first: it
// cannot have seen more than the store has.
func livingWitness(f *Facts, s *sheet) {
	where := f.File.Path + ".head"
	st := f.Status
	switch {
	case st == nil:
		s.skip(f.StatusWhy)
	case f.File.Path == "":
		s.skip(f.Config.Why)
	case f.File.WitnessErr != nil:
		s.find(Smell, where, "a restart makes it anew: until then nothing outside the file knows how far it went", "the witness cannot be read: %v", f.File.WitnessErr)
	case f.File.WitnessOrigin == "":
		s.find(Smell, where, "a restart makes it anew: until then nothing outside the file knows how far it went", "there is no witness")
	case f.File.WitnessOrigin != st.Audit.Origin:
		s.find(Wrong, where, "check that --config names the configuration of the breakwater that runs", "the witness beside the file is of another store than the one that runs")
	case f.File.WitnessBlock > st.Audit.Block || f.File.WitnessBlock == st.Audit.Block && f.File.WitnessHead != st.Audit.Head:
		s.find(Wrong, where, "breakwater audit verify --witness with the head of a producer's last receipt",
			"the witness has seen head %d:%s, and the trail ends at %d:%s", f.File.WitnessBlock, f.File.WitnessHead, st.Audit.Block, st.Audit.Head)
	}
}

// manifest compares an archive with the manifest beside it. Once in service a store is
// no archive any more, whatever lies beside it.
func manifest(f *Facts, s *sheet) {
	switch {
	case f.Mode == Running: // its file is in service
	case f.File.ManifestErr != nil:
		s.find(Wrong, f.File.Path, "take another copy of the archive and of its manifest", "%v", f.File.ManifestErr)
	case f.File.ManifestWhy != "":
		s.skip(f.File.ManifestWhy)
	case unopened(f, s):
	case !f.File.Marked:
		s.needless()
	case !f.File.Manifest:
		s.find(Note, f.File.Path, "breakwater audit verify reads all of it", "it is an archive, and its manifest is not beside it")
	}
}

// records says that stored bytes were found damaged.
func records(f *Facts, s *sheet) {
	if noStatus(f, s) {
		return
	}
	if n := f.Status.Damaged; n > 0 {
		s.find(Wrong, f.File.Path, "breakwater audit verify, then breakwater keys list --blocked; the last good copy has them",
			"what is stored of %s cannot be read: %s", count(n, "open exception", "open exceptions"), plural(n, "its key waits", "their keys wait"))
	}
	if n := f.Status.DamagedSegments; n > 0 {
		s.find(Wrong, f.File.Path, "look at the disk, make an archive, and take the last copy that verifies into service on another disk",
			"%s of the ledger cannot be read in full: lines whose idempotency key may be there are rejected", count(n, "segment", "segments"))
	}
}

// noStatus reports that there is no status to judge by, and writes down why.
func noStatus(f *Facts, s *sheet) bool {
	switch {
	case f.Status != nil:
		return false
	case f.Mode != Running && f.File.Absent:
		s.needless()
	default:
		s.skip(f.StatusWhy)
	}
	return true
}

// A file is worth a compaction if so much of it is free, in percent and in bytes: what
// is free is used again, so that only a file that was once much larger is.
const (
	mostlyFree   = 50
	worthFreeing = 256 << 20
)

// freePages says that a file is mostly empty.
func freePages(f *Facts, s *sheet) {
	if noStatus(f, s) {
		return
	}
	st := f.Status.Store
	if st.FreeBytes >= worthFreeing && st.FreeBytes/mostlyFree >= st.FileBytes/100 {
		s.find(Smell, f.File.Path, "stop breakwater, then breakwater compact; nothing is lost by leaving it: new lines use what is free",
			"%s of its %s are free pages", size(st.FreeBytes), size(st.FileBytes))
	}
}

// oldArchive is how old the last archive may be before it is worth knowing.
const oldArchive = 7 * 24 * time.Hour

// archived judges the last archive's age.
func archived(f *Facts, s *sheet) {
	const hint = "breakwater archive DEST, every day, on another disk"
	c := f.Config.Value
	switch {
	case f.Mode == Copy:
		s.needless()
		return
	case noStatus(f, s):
		return
	case f.Status.Archived == nil && f.Status.Audit.Records == 0:
		return
	case f.Status.Archived == nil && f.Restored != nil:
		s.find(Smell, f.File.Path, hint, "no archive was made since the restore of %s: what this disk loses is lost", stamp(f.Restored.TS))
		return
	case f.Status.Archived == nil:
		s.find(Smell, f.File.Path, hint, "no archive was ever made: what this disk loses is lost")
		return
	}
	age := f.Now.Sub(f.Status.Archived.At.Time)
	switch {
	case c != nil && c.Audit.RequireArchive && age > c.Audit.Retention:
		s.find(Smell, "audit.retention_h", hint, "the last archive is %s old: records older than audit.retention_h (%s) stay, as audit.require_archive wants them in one first",
			days(age), days(c.Audit.Retention))
	case age > oldArchive:
		s.find(Note, f.File.Path, hint, "the last archive is %s old (%s)", days(age), stamp(f.Status.Archived.At.Time))
	}
}

// checkpoints says whether the trail is signed.
func checkpoints(f *Facts, s *sheet) {
	const hint = "breakwater audit keygen makes a key; checkpoint.key and checkpoint.output in the configuration use it"
	c := f.Config.Value
	switch {
	case f.Mode == Copy:
		s.needless() // the file does not know
	case f.Mode == Running && noStatus(f, s):
	case f.Mode == Stopped && c == nil:
		s.skip(f.Config.Why)
	case f.Mode == Running && f.Status.Checkpoint == nil, f.Mode == Stopped && c.Checkpoint.Key == "":
		s.find(Note, "checkpoint", hint, "no checkpoints are signed: who can write the file can write another history")
	case f.Mode == Running && !f.Status.Checkpoint.FailingSince.IsZero():
		s.find(Wrong, "checkpoint.output", "see that it can be written: room, permissions; the next attempt is by itself",
			"no checkpoint could be written since %s: %s", stamp(f.Status.Checkpoint.FailingSince.Time), f.Status.Checkpoint.Error)
	}
}
