package house

// row says what one package may import of our own, and why those.
//
// The map reads from the top down: a package may only name packages further
// down. Boxes of one level do not know each other; internal/app introduces them.
type row struct {
	pkg   string   // from the root; "." is the program itself
	own   []string // our packages that it may import
	tests []string // more of ours, for its tests only
	why   string
}

// everyTest may be imported by the tests of any package, besides what the
// package itself may: real things to test with, in place of mocks.
var everyTest = []string{"storage/storetest", "storage/memstore", "queue", "partition"}

var rows = []row{
	{
		pkg:   ".",
		own:   []string{"internal/cli"},
		tests: []string{"internal/cli"},
		why:   "main fits on a screen: signals, cli.Run, the exit status; nobody else may exit the process",
	},
	{
		pkg:   "internal/cli",
		own:   []string{"internal/app", "internal/kin", "internal/bench", "client", "internal/client", "internal/control/api", "internal/config", "internal/checkpoint", "internal/doctor", "storage", "storage/archive", "queue/handler", "queue"},
		tests: []string{"internal/control", "internal/socket", "queue/dispatch"},
		why: "words and flags in, text and exit status out; storage for read commands on a copy (--file), " +
			"handler because `consume -- CMD` runs under the exec rules",
	},
	{
		pkg: "internal/app",
		own: []string{
			"queue/dispatch", "queue/handler", "storage", "storage/archive",
			"internal/config", "internal/control", "internal/control/api", "internal/socket", "internal/metrics", "internal/systemd",
			"internal/checkpoint", "internal/kin",
			"queue", "partition",
		},
		tests: []string{"internal/client", "storage/boltstore"},
		why:   "the wiring: the only package that knows more than one edge",
	},
	{
		pkg: "internal/bench",
		own: []string{"storage", "queue", "partition"},
		why: "measures this machine with a store of its own; what is printed of it is the command line's",
	},
	{
		pkg:   "queue/dispatch",
		own:   []string{"queue", "partition"},
		tests: []string{"storage", "storage/boltstore"},
		why:   "when things happen; it sees a store through queue.Store, never a backend",
	},
	{
		pkg: "queue/handler",
		own: []string{"internal/kin", "queue"},
		why: "runs an exception and reports an outcome; knows nothing of leases, stores or scheduling; kin to end all of a command",
	},
	{
		pkg: "internal/doctor",
		own: []string{"internal/control/api", "internal/config"},
		why: "judges facts that the command line gathers; it opens and asks nothing, so that every trouble can be told to it",
	},
	{
		pkg:   "internal/control",
		own:   []string{"internal/control/api", "queue"},
		tests: []string{"internal/socket"},
		why: "HTTP for operators; what it can ask for is an interface of its own, which app fills; " +
			"the tests take a real listener, whose Close cuts connections",
	},
	{
		pkg: "internal/socket",
		own: []string{"queue"},
		why: "lines in, lines out; intake and consumers are interfaces of its own, which app fills",
	},
	{
		pkg:   "internal/client",
		own:   []string{"internal/control/api", "queue"},
		tests: []string{"internal/control"},
		why:   "the other end of control.sock; shares words with the server, not code",
	},
	{
		pkg: "examples/go/producer",
		own: []string{"client"},
		why: "to be copied into other people's programs, which can import nothing else of ours that is meant for them",
	},
	{
		pkg: "examples/go/consumer",
		own: []string{"client"},
		why: "see the producer",
	},
	{
		pkg:   "client",
		tests: []string{"queue/dispatch", "internal/socket"},
		why:   "for other people's programs: what goes over the sockets and nothing of what is behind them",
	},
	{
		pkg: "internal/control/api",
		why: "the JSON of control.sock as plain data: both ends and the command line say the same words without " +
			"knowing each other",
	},
	{
		pkg: "internal/metrics",
		own: []string{"queue"},
		why: "counts what it is told; reaches into nothing",
	},
	{
		pkg: "internal/config",
		own: []string{"internal/checkpoint", "queue"},
		why: "decoded in one place and handed on as small structs; queue for the words (routes, limits), " +
			"checkpoint to say before the start whether a key signs",
	},
	{
		pkg: "internal/checkpoint",
		own: []string{"queue"},
		why: "signed heads of the trail: who signs and who checks share the form, and nothing else of either",
	},
	{
		pkg: "internal/kin",
		why: "ends what a process has started; what it was started for is none of its business",
	},
	{
		pkg: "internal/systemd",
		why: "talks to the service manager; knows nothing of the queue",
	},
	{
		pkg:   "storage",
		own:   []string{"storage/boltstore", "storage/memstore", "queue"},
		tests: []string{"storage/boltstore/dbfile"},
		why:   "picks a backend by name: the only package that names one",
	},
	{
		pkg: "storage/archive",
		own: []string{"storage/boltstore", "storage/boltstore/dbfile", "queue"},
		why: "copies of a running store as files that outlive it: it is about the file, hence knows its backend",
	},
	{
		pkg: "storage/boltstore",
		own: []string{"storage/boltstore/bloom", "storage/boltstore/ledger", "storage/boltstore/dbfile", "queue", "partition"},
		why: "the backlog, leases, dead letters and trail in one bbolt file",
	},
	{
		pkg: "storage/boltstore/ledger",
		own: []string{"storage/boltstore/bloom", "queue"},
		why: "what is remembered of keys, log-structured; a box with its own format, used by boltstore only",
	},
	{
		pkg: "storage/boltstore/dbfile",
		own: []string{"queue"},
		why: "opening, checking and creating the file, before a store is read from it; queue for the codes",
	},
	{
		pkg: "storage/boltstore/bloom",
		why: "a filter over hashes, for ledger and trail; it knows neither",
	},
	{
		pkg: "storage/memstore",
		own: []string{"queue", "partition"},
		why: "the model: obviously right because it leans on nothing",
	},
	{
		pkg: "storage/storetest",
		own: []string{"queue", "partition"},
		why: "one conformance suite for every backend; it must not favour one by importing it",
	},
	{
		pkg: "queue",
		own: []string{"partition"},
		why: "words and rules; below it there is only arithmetic",
	},
	{
		pkg: "partition",
		why: "key to slot, slot to owner: arithmetic only",
	},
	{
		pkg: "internal/house",
		tests: []string{
			".", "internal/cli", "internal/app", "client", "internal/client", "internal/config", "internal/control", "internal/socket",
			"internal/metrics", "internal/systemd", "storage", "storage/boltstore",
		},
		why: "tests about the whole house may look into every room; nobody imports it",
	},
}

// door says which packages may import a dependency, and why there. A path
// ending in "/..." stands for a package and all below it.
type door struct {
	path string   // import path, or the prefix of it that ends at a slash
	in   []string // packages whose code may import it
	test []string // packages whose tests alone may; "..." is every package
	why  string
}

// doors is the list of every import from outside our module that needs leave.
// The standard library is open but for the packages named here.
var doors = []door{
	{path: "go.etcd.io/bbolt", in: []string{"storage/boltstore/..."}, why: "no transaction, bucket or driver error leaves the backend"},
	{path: "github.com/cespare/xxhash/v2", in: []string{"partition", "storage/boltstore/..."}, why: "slots; and checksums of what we write"},
	{
		path: "github.com/klauspost/compress", in: []string{"queue", "storage/boltstore/..."}, test: []string{"internal/house"},
		why: "blocks of the trail are sealed with zstd; and the stores in testdata/formats are kept so",
	},
	{path: "github.com/shopspring/decimal", in: []string{"queue"}, why: "money is understood in one place"},
	{
		path: "github.com/go-json-experiment/json",
		in: []string{
			"queue", "queue/handler", "storage/boltstore", "internal/socket", "internal/control", "internal/client",
			"internal/cli", "internal/app", "internal/config",
		},
		test: []string{"..."},
		why:  "strict JSON wherever JSON is spoken: a duplicate name or bad UTF-8 is an error",
	},
	{path: "github.com/urfave/cli/v2", in: []string{"internal/cli"}, why: "flags and commands end where the program begins"},
	{path: "github.com/schollz/progressbar/v3", in: []string{"internal/cli"}, why: "only a person at a terminal sees progress"},
	{path: "github.com/gdamore/tcell/v3", in: []string{"internal/cli"}, why: "the live view draws on a whole terminal: cells, sizes and keys of every kind of it are a library's work"},
	{path: "golang.org/x/term", in: []string{"internal/cli"}, why: "only the command line cares whether it talks to a terminal"},
	{path: "github.com/hashicorp/hcl/v2", in: []string{"internal/config"}, why: "the configuration's language is known to its reader only"},
	{path: "github.com/zclconf/go-cty", in: []string{"internal/config"}, why: "HCL's values, see HCL"},
	{
		path: "github.com/hashicorp/go-hclog",
		in:   []string{"queue/dispatch", "internal/socket", "internal/control", "internal/app", "internal/cli"},
		why:  "logging where decisions are made; everything below returns its errors",
	},
	{path: "github.com/prometheus/", in: []string{"internal/metrics"}, why: "the rest of the house tells an observer, not a registry"},
	{path: "github.com/coreos/go-systemd/v22", in: []string{"internal/systemd"}, why: "the service manager is optional, and so is its library"},
	{
		path: "golang.org/x/sys",
		in: []string{
			"storage/boltstore/...", "storage/archive", "queue/handler", "internal/kin", "internal/socket", "internal/systemd", "internal/app", "internal/cli", "internal/bench",
		},
		test: []string{"internal/house"},
		why:  "system calls at the edges: the file, process groups, peer credentials, descriptors, the host's state",
	},
	{path: "golang.org/x/mod", in: []string{"internal/checkpoint"}, why: "signed notes, by those who defined them"},

	{path: "pgregory.net/rapid", in: []string{"storage/storetest"}, test: []string{"..."}, why: "property tests"},
	{path: "github.com/google/go-cmp", in: []string{"storage/storetest"}, test: []string{"..."}, why: "readable differences in tests"},
	{path: "github.com/rogpeppe/go-internal", test: []string{".", "internal/cli", "internal/house", "internal/app"}, why: "the command line is specified by scripts"},
	{path: "go.yaml.in/yaml/v3", test: []string{"internal/house"}, why: "Prometheus' rules are YAML: a test reads ours; libraries of ours have it in their tests anyway"},
	{path: "testing", in: []string{"storage/storetest"}, test: []string{"..."}, why: "code that ships does not test"},

	{
		path: "net/http",
		in:   []string{"internal/control", "internal/client", "queue/handler", "internal/metrics"},
		test: []string{"internal/app", "internal/cli", "internal/house"},
		why:  "operators' API and its client, the http handler, the metrics page",
	},
	{
		path: "net",
		in: []string{
			"internal/socket", "internal/control", "client", "internal/client", "internal/systemd", "internal/metrics", "internal/app",
			"queue/handler", "internal/cli", "internal/config",
		},
		test: []string{"..."},
		why:  "connections at the edges; config and cli for the form of an address only",
	},
	{
		path: "os/exec", in: []string{"queue/handler", "internal/kin", "internal/cli", "storage/archive"}, test: []string{"..."},
		why: "the exec handler, and the guard of its commands; on the command line the person's own editor and `consume -- CMD`; a copy is checked in a child",
	},
	{path: "os/signal", in: []string{".", "internal/cli", "internal/app", "examples/go/producer", "examples/go/consumer"}, test: []string{"..."}, why: "signals are for the program, not for its parts"},
	{path: "log", in: []string{"internal/cli"}, why: "hclog is the log; two logs tell two stories. The command line silences this one"},
	{path: "log/syslog", in: []string{"internal/app"}, why: "checkpoints, where syslog is what leaves the host"},
	{path: "log/slog", why: "hclog is the log; two logs tell two stories"},
	{path: "math/rand", why: "math/rand/v2: no global seed"},
	{path: "io/ioutil", why: "deprecated"},
	{path: "encoding/gob", why: "formats of ours are documented byte by byte"},
	{
		path: "unsafe", in: []string{"storage/storetest"},
		why: "money and files don't get faster by lying about types; storetest makes the times of a clock that was set, for which there is no constructor",
	},
	{path: "plugin", why: "one binary"},
	{path: "C", why: "one static binary, CGO_ENABLED=0"},
	{path: "embed", in: []string{"internal/cli", "internal/config", "queue"}, test: []string{"..."}, why: "texts and tables that ship in the binary"},
}
