package socket

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// served returns what of some shares has been given, in their order, up to the first
// that waits.
func served(all ...*share) (given []int64) {
	for _, s := range all {
		select {
		case <-s.ready:
			given = append(given, s.given)
		default:
			return given
		}
	}
	return given
}

func TestBudget(t *testing.T) {
	expect := func(t *testing.T, got []int64, want ...int64) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Fatalf("given %v, want %v", got, want)
		}
	}
	t.Run("who asks first is served first, however much that is", func(t *testing.T) {
		b := newBudget(10)
		first, large, small := b.ask(6), b.ask(8), b.ask(1)
		expect(t, served(first, large), 6)
		expect(t, served(small))
		b.give(6)
		expect(t, served(first, large, small), 6, 8, 1)
	})
	t.Run("what is more than all there is takes all", func(t *testing.T) {
		b := newBudget(10)
		first, huge := b.ask(3), b.ask(50)
		expect(t, served(first, huge), 3)
		b.give(3)
		expect(t, served(first, huge), 3, 10)
	})
	t.Run("less than is given gives nothing until that is back, and nobody waits for ever", func(t *testing.T) {
		b := newBudget(10)
		first, second, third := b.ask(5), b.ask(5), b.ask(8) // the third will be more than there ever is
		b.resize(4)
		b.give(5)
		expect(t, served(first, second, third), 5, 5)
		b.give(5)
		expect(t, served(first, second, third), 5, 5, 4)
	})
	t.Run("more than there was serves who waits", func(t *testing.T) {
		b := newBudget(4)
		first, second := b.ask(4), b.ask(6)
		expect(t, served(first, second), 4)
		b.resize(10)
		expect(t, served(first, second), 4, 6)
	})
}

// Whatever the steps: a share is given only where there is room for it, in the order of
// asking, and once all is given back nobody waits.
func TestBudgetNeverGivesMoreThanThereIs(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		b := newBudget(rapid.Int64Range(1, 20).Draw(r, "size"))
		var waiting []*share
		var held []int64
		giveBack := func(i int) {
			n := held[i]
			held = slices.Delete(held, i, i+1)
			b.give(n)
		}
		look := func() {
			given := served(waiting...)
			held, waiting = append(held, given...), waiting[len(given):]
			for _, s := range waiting {
				if len(served(s)) > 0 {
					r.Fatal("somebody overtook")
				}
			}
		}
		for range rapid.IntRange(1, 60).Draw(r, "steps") {
			before := b.used
			switch rapid.IntRange(0, 2).Draw(r, "step") {
			case 0:
				waiting = append(waiting, b.ask(rapid.Int64Range(1, 30).Draw(r, "want")))
			case 1:
				if len(held) > 0 {
					giveBack(rapid.IntRange(0, len(held)-1).Draw(r, "which"))
				}
			case 2:
				b.resize(rapid.Int64Range(1, 20).Draw(r, "resized"))
			}
			look()
			if b.used > b.size && b.used > before {
				r.Fatalf("%d of %d given, %d before", b.used, b.size, before)
			}
		}
		for len(held) > 0 {
			giveBack(0)
			look()
		}
		if len(waiting) > 0 || b.used != 0 {
			r.Fatalf("%d wait, %d are given", len(waiting), b.used)
		}
	})
}
