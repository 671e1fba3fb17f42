package cli

import (
	"testing"
	"time"

	"breakwater/internal/bench"
	"breakwater/storage"
)

func TestBench_text_says_what_a_figure_is_worth(t *testing.T) {
	r := bench.Result{
		Disk:  bench.Figure{Count: 2000, Elapsed: 2 * time.Second},
		Admit: bench.Figure{Count: 75000, Elapsed: 1500 * time.Millisecond, Full: true},
		Life:  bench.Figure{Count: 20500, Elapsed: 2 * time.Second},
	}
	m := measuredOf("/a", &storage.Sight{FileSystem: "tmpfs", Volatile: true}, &r)
	m.Processors = 2
	const want = `       per second  per sync
disk   1,000       1.0       4 KiB written and synced
admit  50,000      50.0      accepted (ended after 1.5 s: the store had no more room)
life   10,250      10.2      accepted, handed out and settled
/a: tmpfs, 2 processors, 16 callers, batches of 100
this file system is gone with the power: its syncs cost nothing, and say nothing of a disk
`
	if got := string(benchText(&m)); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestBench_divides_by_nothing(t *testing.T) {
	m := measuredOf("/a", &storage.Sight{}, &bench.Result{Admit: bench.Figure{Count: 1, Elapsed: time.Second}})
	if m.Disk.PerSecond != 0 || m.Admit.PerSync != 0 {
		t.Errorf("without a figure of the disk: %+v", m)
	}
}
