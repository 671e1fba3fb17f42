package doctor

import (
	"fmt"
	"slices"
	"time"
)

// concerns are file systems that a store should not be on, besides those that are known
// to be on a network or in memory.
var concerns = map[string]struct {
	how  Severity
	what string
}{
	"overlayfs": {Smell, "a layer of a container: what is accepted is gone with the container"},
	"fuse":      {Smell, "a program's (FUSE): only that program knows whether locks and syncs hold"},
	"vfat":      {Smell, "one without permissions or a journal"},
	"exfat":     {Smell, "one without permissions or a journal"},
	"squashfs":  {Wrong, "one that cannot be written"},
	"iso9660":   {Wrong, "one that cannot be written"},
}

// fileSystem judges what lies under the store. A copy may lie anywhere.
func fileSystem(f *Facts, s *sheet) {
	const hint = "set data_dir (or store.path) to a folder on a local disk with ext4 or xfs"
	known, listed := concerns[f.File.FileSystem]
	switch {
	case f.Mode == Copy:
		s.needless()
	case f.File.Path == "":
		s.skip(f.Config.Why)
	case f.File.FileSystemErr != nil:
		s.skip(f.File.FileSystemErr.Error())
	case listed:
		s.find(known.how, f.File.Path, hint, "the store is on %s, %s", f.File.FileSystem, known.what)
	case f.File.Network:
		s.find(Wrong, f.File.Path, hint, "the store is on a network file system (%s): a lock may not keep others out, and a sync may be nobody's promise", f.File.FileSystem)
	case f.File.Volatile:
		s.find(Smell, f.File.Path, hint, "the store is in memory (%s): what is accepted does not survive a loss of power", f.File.FileSystem)
	}
}

// weakening are mount options with which a sync does not reach the disk.
var weakening = []string{"nobarrier", "barrier=0"}

// telling is the mount option with which a file system tells the disk at once what is
// free. (btrfs has a form that does it later, discard=async.)
const telling = "discard"

// mount judges the options of the mount below the store.
func mount(f *Facts, s *sheet) {
	switch {
	case f.Mode == Copy:
		s.needless()
	case len(f.File.Mount) == 0:
		s.skip("the mount is not known")
	}
	for _, o := range weakening {
		if f.Mode != Copy && slices.Contains(f.File.Mount, o) {
			s.find(Wrong, f.File.Path, "mount it without "+o, "it is mounted with %s: what was accepted may be lost with the power", o)
		}
	}
	if f.Mode != Copy && slices.Contains(f.File.Mount, telling) {
		s.find(Note, f.File.Path, "keep archives on another disk, or mount this one without "+telling+" and let fstrim.timer tell it",
			"it is mounted with %s: while a large file, like an old archive, is removed from this disk, commits may wait for it", telling)
	}
}

// tightRoom is how many times min_free_bytes there is to be.
const tightRoom = 4

// nearlyFull is the share of max_store_bytes, in percent, that is worth a word.
const nearlyFull = 90

// freeSpace compares the room with the limits that stop the intake.
func freeSpace(f *Facts, s *sheet) {
	c := f.Config.Value
	switch {
	case f.Mode == Copy:
		s.needless()
		return
	case c == nil:
		s.skip(f.Config.Why)
		return
	case f.File.FreeSpaceErr != nil:
		s.skip(f.File.FreeSpaceErr.Error())
		return
	}
	room, inside := f.File.FreeSpace, int64(0)
	if f.Status != nil {
		inside = f.Status.Store.FreeBytes
	}
	const hint = "make room on the disk: breakwater archive elsewhere and remove what is not needed, or move the store; queue.min_free_bytes is the limit"
	switch least := c.Queue.MinFreeBytes; {
	case room+inside < least:
		s.find(Wrong, f.File.Path, hint, "%s are free (%s of it inside the file), less than queue.min_free_bytes (%s): new lines wait or are rejected",
			size(room+inside), size(inside), size(least))
	case room+inside < tightRoom*least:
		s.find(Smell, f.File.Path, hint, "%s are free (%s of it inside the file): below %s new lines wait or are rejected (queue.min_free_bytes)",
			size(room+inside), size(inside), size(least))
	}
	most := c.Queue.MaxStoreBytes
	if f.Status == nil || most == 0 {
		return
	}
	if used := f.Status.Store.FileBytes - inside; used >= most/100*nearlyFull {
		s.find(Smell, "queue.max_store_bytes", "raise queue.max_store_bytes and breakwater reload, or let retention remove more (audit.retention_h)",
			"%s of the %s that queue.max_store_bytes allows are used", size(used), size(most))
	}
}

// soon is how far ahead growth is worth a word.
const soon = 24 * time.Hour

// growth reckons how long the room lasts at the pace of the last minute. What a line
// costs is what all lines so far have cost on average: a guess, good for hours.
func growth(f *Facts, s *sheet) {
	c, st := f.Config.Value, f.Status
	switch {
	case f.Mode != Running:
		s.needless()
		return
	case c == nil:
		s.skip(f.Config.Why)
		return
	case st == nil:
		s.skip(f.StatusWhy)
		return
	case st.Recent == nil || st.Recent.Seconds == 0:
		s.skip("it has just begun")
		return
	}
	pace := float64(st.Recent.Stored) / float64(st.Recent.Seconds)
	if f.File.FreeSpaceErr == nil && st.LastSeq > 0 {
		each := float64(st.Store.FileBytes-st.Store.FreeBytes) / float64(st.LastSeq)
		room := float64(f.File.FreeSpace + st.Store.FreeBytes - c.Queue.MinFreeBytes)
		if left, ok := lasts(room, pace*each); ok && room > 0 { // else disk.free has said so
			s.find(Smell, f.File.Path, "make room on the disk before it; breakwater status says the pace",
				"at the pace of the last %d s (%.1f lines a second, about %s each) the disk is full to queue.min_free_bytes in %v",
				st.Recent.Seconds, pace, size(int64(each)), left)
		}
	}
	open := st.Ready + st.Scheduled + st.Leased + st.Held
	rise := float64(st.Recent.Stored-st.Recent.Done-st.Recent.Discarded) / float64(st.Recent.Seconds)
	if left, ok := lasts(float64(c.Queue.MaxBacklog-open), rise); ok && c.Queue.MaxBacklog > 0 {
		s.find(Smell, "queue.max_backlog", "breakwater status shows which route is behind: raise queue.concurrency or attach consumers; queue.max_backlog is the limit",
			"the backlog (%d) grows by %.1f exceptions a second: it reaches queue.max_backlog (%d) in %v", open, rise, c.Queue.MaxBacklog, left)
	}
}

// lasts is how long what is left lasts, if it is not long.
func lasts(left, aSecond float64) (time.Duration, bool) {
	if aSecond <= 0 || left/aSecond > soon.Seconds() {
		return 0, false
	}
	return time.Duration(max(left, 0) / aSecond * float64(time.Second)).Round(time.Minute), true
}

// size is a number of bytes as people say it.
func size(n int64) string {
	units := [...]string{"bytes", "KiB", "MiB", "GiB", "TiB"}
	unit := 0
	for n >= 10<<10 && unit < len(units)-1 {
		n >>= 10
		unit++
	}
	return fmt.Sprintf("%d %s", n, units[unit])
}
