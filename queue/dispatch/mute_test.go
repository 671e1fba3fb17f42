package dispatch

import (
	"fmt"
	"testing"
	"time"

	"breakwater/queue"
)

// A consumer that hangs must not wear out the deliveries of what is for it, while
// another one stands by with room.
func TestMute(t *testing.T) {
	const keys = 20
	letters := func(from int) (specs []string) {
		for i := range keys {
			specs = append(specs, fmt.Sprintf("x%d@K%d", from+i, i))
		}
		return specs
	}
	inBubble(t, "what a hung consumer lets run out goes to the others", func(t *testing.T) {
		g := hosted(t)
		hung := g.attach(attachment("hung", 2*keys))
		g.submit(letters(0)...)
		pass(time.Second)
		if n := len(hung.deliveries()); n != keys {
			t.Fatalf("the only consumer got %d", n)
		}
		well := g.attach(attachment("well", 2*keys))
		settleFor := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); pass(5 * time.Second) {
				well.ackAll()
			}
		}
		settleFor(2 * time.Minute) // the leases of the hung one run out
		g.submit(letters(keys)...)
		settleFor(5 * time.Minute)
		if st := g.status(); st.Done != 2*keys || st.Dead != 0 {
			t.Errorf("%+v", st)
		}
		if n := len(hung.deliveries()); n > keys+1 {
			t.Errorf("the hung one was given %d more", n-keys)
		}
	})
	inBubble(t, "one that hangs alone gets one at a time, and all again once it answers", func(t *testing.T) {
		g := hosted(t)
		hung := g.attach(attachment("hung", keys))
		g.submit(letters(0)...)
		pass(time.Minute + 2*time.Second)
		if n := g.status().Leased; n != 1 {
			t.Errorf("a mute consumer holds %d", n)
		}
		if _, err := hung.Answer(t.Context(), []queue.Settlement{acked}); err != nil { // a late answer is one too
			t.Fatal(err)
		}
		pass(time.Second)
		if n := g.status().Leased; n != keys {
			t.Errorf("a consumer that speaks again holds %d", n)
		}
	})
}

// ackAll settles what the consumer holds.
func (c *guest) ackAll() {
	for _, d := range c.deliveries() {
		c.mu.Lock()
		_, held := c.held[d.Message.IdempotencyKey]
		c.mu.Unlock()
		if held {
			c.ack(d.Message.IdempotencyKey)
		}
	}
}
