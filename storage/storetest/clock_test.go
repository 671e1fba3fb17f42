package storetest

import (
	"strings"
	"testing"
	"time"
)

func TestClock(t *testing.T) {
	t.Run("reads_like_the_library's", func(t *testing.T) {
		c := NewClock()
		now := c.Now()
		if want := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC); !now.Round(0).Equal(want) {
			t.Errorf("the wall clock says %s, want %s", now.Round(0), want)
		}
		if !strings.HasSuffix(now.String(), "m=+3600.000000000") {
			t.Errorf("no monotonic reading in %q", now.String())
		}
	})
	t.Run("passes_on_both_hands", func(t *testing.T) {
		c := NewClock()
		was := c.Now()
		c.Pass(90 * time.Second)
		if d := c.Now().Sub(was); d != 90*time.Second {
			t.Errorf("%s elapsed", d)
		}
		if d := c.Now().Round(0).Sub(was.Round(0)); d != 90*time.Second {
			t.Errorf("%s on the wall", d)
		}
	})
	t.Run("is_set_without_time_passing", func(t *testing.T) {
		c := NewClock()
		was := c.Now()
		c.Step(-time.Hour)
		if d := c.Now().Sub(was); d != 0 {
			t.Errorf("%s elapsed", d)
		}
		if d := c.Now().Round(0).Sub(was.Round(0)); d != -time.Hour {
			t.Errorf("%s on the wall", d)
		}
		if due := was.Add(time.Second); !c.Now().Before(due) {
			t.Error("elapsed time follows the wall clock")
		}
	})
}
