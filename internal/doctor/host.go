package doctor

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"breakwater/internal/config"
)

// ClockSlack is by how much the trail may be ahead of the clock: a clock that is
// steered goes back a little now and then.
const ClockSlack = 5 * time.Second

// clock compares this host's clock with the trail.
func clock(f *Facts, s *sheet) {
	switch r := f.Future; {
	case r != nil:
		how := Wrong
		hint := "set the clock (timedatectl); until it has caught up, leases, ages and retention are reckoned by a time that is wrong"
		if f.Mode == Copy { // which may be from another host
			how, hint = Smell, "compare this host's clock with that of the host which wrote the file"
		}
		s.find(how, "", hint, "the clock says %s, and record %d of the trail was written at %s: %v later",
			stamp(f.Now), r.N, stamp(r.TS), r.TS.Sub(f.Now).Round(time.Second))
	case f.Mode == Stopped && f.File.Absent:
		s.needless()
	case f.FutureWhy != "":
		s.skip(f.FutureWhy)
	}
}

// What a process has open besides connections of its sockets.
const (
	ownFiles     = 32 // the store, its lock and witness, the log, the trail's stream, the service manager, an archive
	scrapers     = 16 // connections of metrics.listen
	filesPerRun  = 8  // a command: its pipes, at both ends while it starts, and its process
	filesPerPost = 2  // an http handler: a connection, and a file with the authorization
)

// filesNeeded is the most that breakwater may have open.
func filesNeeded(c *config.Config) int64 {
	need := ownFiles + c.Sockets.Enqueue.MaxConnections + c.Sockets.Consume.MaxConnections + c.Sockets.Control.MaxConnections
	if c.Metrics.Listen != "" {
		need += scrapers
	}
	most := 0
	for _, route := range []config.Route{c.Routes.AutoResolve, c.Routes.RouteReview} {
		switch h, _ := c.Handler(route.Handler); h.Kind {
		case config.KindExec:
			most = max(most, filesPerRun)
		case config.KindHTTP:
			most = max(most, filesPerPost)
		}
	}
	return int64(need + most*c.Queue.Concurrency)
}

// descriptors compares what breakwater may need with what it may have.
func descriptors(f *Facts, s *sheet) {
	switch c := f.Config.Value; {
	case f.Mode == Copy:
		s.needless()
	case c == nil:
		s.skip(f.Config.Why)
	case f.Host.Descriptors == 0:
		s.skip(f.Host.DescriptorsWhy)
	default:
		need := filesNeeded(c)
		if f.Host.Descriptors >= need {
			return
		}
		how, whose := Wrong, "breakwater"
		if f.Host.Ours {
			how, whose = Smell, "a process of this shell"
		}
		s.find(how, "RLIMIT_NOFILE", fmt.Sprintf("set LimitNOFILE=%d or more in the unit (systemctl edit breakwater; ulimit -n in a shell), or lower max_connections", need),
			"%s may open %d files, and %d may be needed: max_connections of the sockets, handlers, its own", whose, f.Host.Descriptors, need)
	}
}

// owners compares who owns what. A store that was once opened as root has files that
// the service cannot write.
func owners(f *Facts, s *sheet) {
	if f.Mode == Copy {
		s.needless()
		return
	}
	if len(f.Host.Places) == 0 {
		s.skip(f.Config.Why)
		return
	}
	var folder *Place
	for i := range f.Host.Places {
		p := &f.Host.Places[i]
		if !p.Exists || !p.Ours {
			continue
		}
		if folder == nil {
			folder = p // the first is the store's folder
			continue
		}
		if p.UID != folder.UID {
			s.find(Wrong, p.Path, fmt.Sprintf("stop breakwater, then chown %d %s (or the folder): another user's \"breakwater serve\" has probably made it", folder.UID, word(p.Path)),
				"%s belongs to user %d, and %s to user %d: breakwater runs as one of them", p.Role, p.UID, folder.Role, folder.UID)
		}
	}
	if why := unseen(f.Host.Places); why != "" {
		s.skip(why)
	}
}

// sockets looks for those of a breakwater that runs. One that was removed is not made
// again before a restart.
func sockets(f *Facts, s *sheet) {
	if f.Mode != Running {
		s.needless()
		return
	}
	if len(f.Host.Places) == 0 {
		s.skip(f.Config.Why)
		return
	}
	looked := false
	for _, p := range f.Host.Places {
		switch {
		case !p.Socket || p.Err != nil:
			continue
		case !p.Exists:
			s.find(Wrong, p.Path, "restart breakwater: it makes its sockets at a start; find out what has removed this one",
				"%s is not there: nobody can connect", p.Role)
		}
		looked = true
	}
	if !looked {
		s.skip(unseen(f.Host.Places))
	}
}

// modes compares permissions with those that are meant.
func modes(f *Facts, s *sheet) {
	if len(f.Host.Places) == 0 {
		s.skip(f.Config.Why)
		return
	}
	for _, p := range f.Host.Places {
		if !p.Exists {
			continue
		}
		wide, short := p.Mode&^p.Widest, p.Least&^p.Mode
		hint := fmt.Sprintf("chmod %04o %s", p.Widest, word(p.Path))
		switch {
		case f.Mode != Copy && (wide&0o002 != 0 || wide&0o007 != 0 && !p.Folder):
			s.find(Wrong, p.Path, hint, "%s has mode %04o, which lets everybody in; %04o is meant", p.Role, p.Mode, p.Widest)
		case wide != 0:
			s.find(Smell, p.Path, hint, "%s has mode %04o; %04o is meant", p.Role, p.Mode, p.Widest)
		case short != 0:
			s.find(Smell, p.Path, hint, "%s has mode %04o, less than %04o: who should get in cannot", p.Role, p.Mode, p.Least)
		}
	}
	if why := unseen(f.Host.Places); why != "" {
		s.skip(why)
	}
}

// word is a path as a word for a shell, in quotes where it needs them.
func word(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_@%+:,./-", r)
	}) {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}

// unseen says why not all places could be looked at; "" if they could.
func unseen(places []Place) string {
	why := "nothing is there yet"
	for _, p := range places {
		if p.Err != nil {
			return fmt.Sprintf("%s cannot be looked at: %v", p.Role, p.Err)
		}
		if p.Exists {
			why = ""
		}
	}
	return why
}

// stamp is a time to the second, in UTC.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }
