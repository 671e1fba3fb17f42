package control

import (
	"cmp"
	"fmt"
	"time"

	"breakwater/internal/control/api"
	"breakwater/queue"
)

// words says a cause in a sentence.
func words(c *queue.Cause, now time.Time) string {
	switch c.Reason {
	case queue.WhyDead:
		return fmt.Sprintf("it is a dead letter%s: %s%s", since(c.Since, now), c.Code, because(c.Text))
	case queue.WhyBlocked:
		text := fmt.Sprintf("its key waits for dead letter %d%s: %s%s", c.Seq, since(c.Since, now), c.Code, because(c.Text))
		if c.Count > 1 {
			text += fmt.Sprintf(" (and for %d more)", c.Count-1)
		}
		return text
	case queue.WhyDamaged:
		return fmt.Sprintf("the stored bytes of seq %d are damaged: it is not handed out, and its key waits for it", c.Seq)
	case queue.WhyOperator:
		return "its key is held" + by(cmp.Or(c.By, "an operator")) + since(c.Since, now) + because(c.Text)
	case queue.WhyRetry:
		return fmt.Sprintf("seq %d failed (%s) and is tried again %s%s", c.Seq, attempts(c), when(c.Until, now), because(c.Text))
	case queue.WhyHold:
		return fmt.Sprintf("seq %d was put on hold%s until %s, %s%s", c.Seq, by(c.By), stamp(c.Until), when(c.Until, now), because(c.Text))
	case queue.WhyLeased, queue.WhyBehind, queue.WhyAside:
		return wordsOfLease(c, now)
	case queue.WhyNotDue:
		return fmt.Sprintf("seq %d is not due before %s, %s", c.Seq, stamp(c.Until), when(c.Until, now))
	case queue.WhyPaused:
		return "claims are paused" + by(c.By) + since(c.Since, now) + because(c.Text)
	case queue.WhyDraining:
		return "breakwater is draining: nothing is handed out before the next start"
	case queue.WhyUnavailable, queue.WhyNoConsumer, queue.WhyConsumers:
		return wordsOfRoute(c, now)
	case queue.WhySettled:
		if c.State == queue.Discarded {
			return "it was discarded" + at(c.Since, now)
		}
		return fmt.Sprintf("it was done%s, with the outcome %s", at(c.Since, now), c.Outcome)
	case queue.WhyNothing:
		return "nothing of it is open"
	case queue.WhyNext:
		return wordsOfTurn(c)
	}
	return string(c.Reason)
}

// wordsOfLease says who has it, or what comes first.
func wordsOfLease(c *queue.Cause, now time.Time) string {
	switch c.Reason {
	case queue.WhyBehind:
		return fmt.Sprintf("seq %d of its key comes first", c.Seq)
	case queue.WhyAside:
		return fmt.Sprintf("%s has put it back and is not asked again before %s, %s", c.Owner, stamp(c.Until), when(c.Until, now))
	}
	kind := "worker"
	if c.Consumer {
		kind = "consumer"
	}
	return fmt.Sprintf("seq %d is with %s %s, whose lease runs until %s", c.Seq, kind, c.Owner, stamp(c.Until))
}

// wordsOfRoute says why nobody takes what is on a route.
func wordsOfRoute(c *queue.Cause, now time.Time) string {
	switch c.Reason {
	case queue.WhyNoConsumer:
		return fmt.Sprintf("no consumer is attached that takes %s", c.Route)
	case queue.WhyConsumers:
		return fmt.Sprintf("all that the consumers of %s may have unanswered is with them (%d attached)", c.Route, c.Count)
	}
	next := "tried again with the next exception"
	if c.Until.After(now) {
		next = "tried again " + when(c.Until, now)
	}
	return fmt.Sprintf("the handler of %s cannot be had%s, and is %s%s", c.Route, since(c.Since, now), next, because(c.Text))
}

// wordsOfTurn says how far away its turn is.
func wordsOfTurn(c *queue.Cause) string {
	route := ""
	if c.Route != "" {
		route = " on " + string(c.Route)
	}
	switch {
	case c.More && c.Count == 0:
		return "nothing keeps it: it waits its turn behind many others" + route
	case c.More:
		return fmt.Sprintf("nothing keeps it: it waits its turn behind more than %d other keys%s", c.Count, route)
	case c.Count == 0:
		return "nothing keeps it: it is next" + route
	case c.Count == 1:
		return "nothing keeps it: it waits its turn behind one other key" + route
	}
	return fmt.Sprintf("nothing keeps it: it waits its turn behind %d other keys%s", c.Count, route)
}

func attempts(c *queue.Cause) string {
	if c.Most > 0 {
		return fmt.Sprintf("attempt %d of %d", c.Count, c.Most)
	}
	return fmt.Sprintf("attempt %d", c.Count)
}

// stamp is a time to the second, in UTC.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

func since(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return fmt.Sprintf(" since %s (%s)", stamp(t), api.LengthText(now.Sub(t)))
}

func at(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return fmt.Sprintf(" at %s (%s ago)", stamp(t), api.LengthText(now.Sub(t)))
}

// when says how far away a time is. One that has come counts until it has been seen.
func when(t, now time.Time) string {
	if left := t.Sub(now); left >= time.Second {
		return "in " + api.LengthText(left)
	}
	return "now"
}

func by(who string) string {
	if who == "" {
		return ""
	}
	return " by " + who
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}
