package house

import (
	"os"
	"syscall"
	"testing"
)

// TestCompact_killed kills a compaction at ever later moments, until one is through:
// each time the store is there, whole, and what was left goes with the next opening.
func TestCompact_killed(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	p := s.serve()
	s.pileUp(4000)
	p.stop()
	want := s.status()
	temp := s.path("var/.breakwater.db.compacting")
	kills, renamed := 0, false
	for moment := 0; ; moment++ {
		c := s.start("compact")
		through := c.reaches(temp, moment)
		if !through || !renamed {
			c.signal(syscall.SIGKILL)
			kills++
		}
		<-c.ended
		got := s.status()
		got.FileBytes, got.FreeBytes = want.FileBytes, want.FreeBytes
		if got.Head != want.Head || got.Records != want.Records || got.Ready != want.Ready {
			t.Fatalf("killed at moment %d: %+v, before it was %+v", moment, got, want)
		}
		if renamed {
			break
		}
		renamed = through // once it is killed there, too
	}
	if kills == 0 {
		t.Error("no kill came before the end")
	}
	p = s.serve()
	if _, err := os.Lstat(temp); err == nil {
		t.Errorf("%s is still there", temp)
	}
	p.stop()
	s.verify()
}

// reaches waits until the file of a compaction has grown so many times, as far as can be
// seen from outside; through: it has the store's name, or the process has ended.
func (p *process) reaches(temp string, times int) (through bool) {
	last := int64(-1)
	for {
		select {
		case <-p.ended:
			return true
		default:
		}
		st, err := os.Lstat(temp)
		switch {
		case err != nil && last >= 0:
			return true
		case err == nil && st.Size() != last:
			last = st.Size()
			if times--; times < 0 {
				return false
			}
		}
	}
}
