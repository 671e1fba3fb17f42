package doctor

import (
	"cmp"
	"fmt"
	"time"

	"breakwater/internal/control/api"
)

// answers says that a breakwater runs and does not answer.
func answers(f *Facts, s *sheet) {
	switch {
	case f.Mode != Running:
		s.needless()
	case f.Silent != nil:
		s.find(Wrong, "socket.control.path", "its log says what it does; a watchdog restarts one that hangs (WatchdogSec in the packaged unit)",
			"somebody listens on the control socket and gives no answer: %v", f.Silent)
	}
}

// pause says that claims are stopped.
func pause(f *Facts, s *sheet) {
	if noStatus(f, s) {
		return
	}
	if p := f.Status.Paused; p != nil {
		s.find(Smell, "", "breakwater resume", "nothing is handed out since %s: paused by %s%s", stamp(p.Since.Time), cmp.Or(p.By, "somebody"), because(p.Reason))
	}
	if f.Status.Draining {
		s.find(Note, "", "it ends by itself within queue.drain_timeout_s", "breakwater is draining")
	}
}

// intake says that producers wait.
func intake(f *Facts, s *sheet) {
	switch {
	case f.Mode != Running:
		s.needless()
	case noStatus(f, s):
	case f.Status.Intake.Intake == api.IntakeWaiting:
		s.find(Smell, setting(f.Status.Saturated), "breakwater status shows what does not go on; settle or discard, or raise the limit and breakwater reload",
			"%s for room: %s is reached", count(int64(f.Status.Waiting), "producer waits", "producers wait"), f.Status.Saturated)
	case f.Status.Intake.Intake == api.IntakeFull:
		s.find(Smell, setting(f.Status.Saturated), "breakwater status shows what does not go on; settle or discard, or raise the limit and breakwater reload",
			"the next line finds no room: %s is reached", f.Status.Saturated)
	}
}

// setting is the key of the configuration that a limit is set by.
func setting(limit string) string {
	if limit == "max_ledger_keys" {
		return "ledger.max_keys"
	}
	return "queue." + limit
}

// handlers says which routes have nobody.
func handlers(f *Facts, s *sheet) {
	if f.Mode != Running {
		s.needless()
		return
	}
	if noStatus(f, s) {
		return
	}
	for _, o := range f.Status.Unavailable {
		s.find(Smell, "route."+o.Route+".handler", "mend what the handler reaches; breakwater status says when it is tried again",
			"the handler of %s cannot be had since %s%s", o.Route, stamp(o.Since.Time), because(o.Reason))
	}
	for _, route := range f.Stuck {
		s.find(Wrong, "route."+route+".handler", "its log says what the handler does; breakwater status names the oldest exception, and breakwater why its cause",
			"the handler of %s has work and has settled nothing for queue.consumer_lag_s: /readyz says that breakwater is not ready", route)
	}
	for _, r := range f.Status.Routes {
		if r.InProcess || r.Consumers > 0 {
			continue
		}
		for _, o := range f.Status.Oldest {
			if o.Route == r.Route {
				s.find(Smell, "route."+r.Route+".handler", "breakwater consume --name NAME --routes "+r.Route+", or give the route a handler and breakwater reload",
					"exceptions wait for a consumer of %s, and none is attached", r.Route)
			}
		}
	}
}

// lag says that claimable exceptions are old (CONSUMER_LAG).
func lag(f *Facts, s *sheet) {
	c := f.Config.Value
	switch {
	case f.Mode != Running:
		s.needless() // nobody claims from a file
		return
	case c == nil:
		s.skip(f.Config.Why)
		return
	case noStatus(f, s):
		return
	}
	for _, o := range f.Status.Oldest {
		if old := time.Duration(o.AgeMS) * time.Millisecond; old > c.Queue.ConsumerLag {
			s.find(Smell, "route."+o.Route, fmt.Sprintf("breakwater why %d", o.Seq),
				"CONSUMER_LAG: seq %d of %s can be claimed since %s, longer than queue.consumer_lag_s (%v)", o.Seq, o.Route, stamp(o.AcceptedAt.Time), c.Queue.ConsumerLag)
		}
	}
}

// blockedKeys says that keys wait for a person.
func blockedKeys(f *Facts, s *sheet) {
	if noStatus(f, s) {
		return
	}
	if n := f.Status.BlockedKeys; n > 0 {
		s.find(Smell, "", "breakwater keys list --blocked, then breakwater why KEY", "%s for a dead letter", count(n, "partition key waits", "partition keys wait"))
	}
	if n := f.Status.OperatorHolds; n > 0 {
		s.find(Note, "", "breakwater keys list --held", "operators hold %s", count(n, "partition key", "partition keys"))
	}
}

// deadLetters says that there are some.
func deadLetters(f *Facts, s *sheet) {
	if noStatus(f, s) {
		return
	}
	if n := f.Status.Dead; n > 0 {
		s.find(Smell, "", "breakwater dlq list", "%s for a person; %s that a gate refused",
			count(n, "dead letter waits", "dead letters wait"), count(f.Status.Quarantined, "of them is a line", "of them are lines"))
	}
}

// count is a number with its noun.
func count(n int64, one, many string) string { return fmt.Sprintf("%d %s", n, plural(n, one, many)) }

// plural picks the word for n things.
func plural(n int64, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// because appends a reason, if there is one.
func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// days is a length of time for things that last.
func days(d time.Duration) string {
	if d < 48*time.Hour {
		return d.Round(time.Minute).String()
	}
	return fmt.Sprintf("%d days", d/(24*time.Hour))
}
