package doctor

// check is one of them.
type check struct {
	name string
	what string // in a few words
	look func(*Facts, *sheet)
}

// checks are all of them, in the order in which they are told. A name never changes
// its meaning.
var checks = []check{
	{"config.problems", "the configuration can be used", configProblems},
	{"config.host", "the host has what the configuration names", configHost},
	{"config.warnings", "nothing in the configuration is probably not meant", configWarnings},
	{"config.in_force", "the limits in force are those of the file", inForce},
	{"config.lease", "leases are longer than handlers take", leases},
	{"config.timeout", "handlers answer well within their time", timeouts},
	{"config.drain", "a drain ends before a service manager kills", drain},

	{"host.clock", "the clock is not behind the trail", clock},
	{"host.descriptors", "there are file descriptors for all connections", descriptors},
	{"host.owners", "files and folders belong to one user", owners},
	{"host.sockets", "every socket of a breakwater that runs is there", sockets},
	{"host.modes", "nobody has more permission than is meant, or less", modes},

	{"disk.filesystem", "locks and syncs hold what they promise", fileSystem},
	{"disk.mount", "nothing weakens a sync, or holds it up", mount},
	{"disk.free", "there is room, for new lines and for what is in flight", freeSpace},
	{"disk.growth", "the room lasts", growth},

	{"file.open", "the file can be opened", fileOpen},
	{"file.new", "the file was not made only lately", newFile},
	{"file.format", "the file is of this version's format", fileFormat},
	{"file.commit", "the file stands at its newest commit", newestCommit},
	{"file.stop", "the last stop was in order", fileStop},
	{"file.witness", "the file is as new as its witness", witness},
	{"file.manifest", "an archive is what its manifest says", manifest},
	{"file.records", "what is stored of open exceptions can be read", records},
	{"file.free_pages", "the file is not mostly empty", freePages},

	{"trail.archive", "the trail is in an archive", archived},
	{"trail.checkpoints", "the trail is signed", checkpoints},

	{"work.answers", "who listens on the control socket answers", answers},
	{"work.pause", "nothing is paused", pause},
	{"work.intake", "producers need not wait", intake},
	{"work.handlers", "every handler can be had", handlers},
	{"work.lag", "nothing claimable is too old", lag},
	{"work.blocked_keys", "no key waits for a person", blockedKeys},
	{"work.dead_letters", "there are no dead letters", deadLetters},
}

// Names are the names of all checks, each with what it is about.
func Names() (names [][2]string) {
	for _, c := range checks {
		names = append(names, [2]string{c.name, c.what})
	}
	return names
}
