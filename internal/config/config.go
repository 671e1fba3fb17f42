package config

import (
	"cmp"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"breakwater/queue"
)

// Config is everything that an operator can decide. All paths are absolute
// unless the working directory is unknown. It is a value: copies are
// independent as long as nobody writes into Handlers.
type Config struct {
	DataDir string // holds the store; 0700
	RunDir  string // holds the sockets; 0750

	Store      Store
	Queue      Queue
	Ledger     Ledger
	Audit      Audit
	Checkpoint Checkpoint
	Metrics    Metrics
	Sockets    Sockets
	Routes     Routes
	Handlers   []Handler // sorted by kind and name, without the built-in ones
	Log        Log

	origin origin
}

// origin remembers where a Config came from, for messages about it.
type origin struct {
	file   string
	places map[string]place // by key, "queue.prefetch"; keys left out are absent
}

// File is the path that the Config was read from, or "" for built-in defaults.
func (c Config) File() string { return c.origin.file }

// Equal tells whether two configurations mean the same, whatever file or line
// each came from.
func (c Config) Equal(other Config) bool {
	c.origin, other.origin = origin{}, origin{}
	return reflect.DeepEqual(c, other)
}

// Store says which engine keeps the backlog, and where.
type Store struct {
	Backend string // "bbolt"
	Path    string // default: breakwater.db in DataDir
}

// Queue holds the pace and the bounds of the core. Every field can change at a
// reload; the rules between them hold in every Config that Parse returns.
type Queue struct {
	// Concurrency is the number of in-process workers.
	Concurrency int
	// MaxSize is queue_maxsize: exceptions in all worker channels together, at
	// least Concurrency. It bounds memory, whatever the backlog (P6).
	MaxSize int
	// Prefetch is how many are claimed at once, at most MaxSize: what has been
	// claimed always finds room.
	Prefetch int

	// LeaseTimeout is the length of a lease that asks for no other. It need not
	// cover a handler's timeout: workers renew the leases of what they queue or run.
	LeaseTimeout time.Duration
	// MaxLeaseTimeout and MaxPrefetch bound what a consumer may ask for.
	MaxLeaseTimeout time.Duration
	MaxPrefetch     int

	// DrainTimeout is how long running handlers may go on after SIGTERM.
	DrainTimeout time.Duration

	// MaxAttempts counts failures, MaxDeliveries also crashes and expired leases,
	// so that it is never the smaller one.
	MaxAttempts   int
	MaxDeliveries int
	// RetryInitial doubles with each failure up to RetryMax, which also caps what
	// a handler may ask for.
	RetryInitial time.Duration
	RetryMax     time.Duration
	OnDeadLetter string // HoldKey or SkipKey

	// ConsumerLag is the age of a route's oldest claimable exception that is
	// reported as CONSUMER_LAG.
	ConsumerLag time.Duration

	// When the store counts as full. MaxBacklog is over ready, scheduled, leased
	// and held together.
	MaxBacklog     int64
	MaxOpenKeys    int64
	MaxDeadLetters int64
	MaxStoreBytes  int64  // 0: no limit
	MinFreeBytes   int64  // 0: the disk may be filled
	OnSaturated    string // BlockIntake or RejectIntake

	// MaxLineBytes is the longest line, its LF not counted. MaxIntakeBytes bounds
	// lines read but not yet stored, of all connections together, and always has
	// room for one.
	MaxLineBytes   int64
	MaxIntakeBytes int64
	// ReceiptTimeout is how long a producer may leave its receipts unread.
	ReceiptTimeout time.Duration
}

// What happens to a partition key whose message became a dead letter.
const (
	HoldKey = "hold" // the key waits for a replay or a discard
	SkipKey = "skip" // the key goes on; the gap is recorded
)

// What a producer meets when the store is full.
const (
	BlockIntake  = "block"  // its lines are not read
	RejectIntake = "reject" // its lines are answered "rejected"
)

// Ledger bounds the memory of settled keys (P2): a duplicate that comes later
// than Retention after the settlement is taken for a new message.
type Ledger struct {
	Retention time.Duration // counted from settlement; open and dead keys are always kept
	MaxKeys   int64         // beyond it the store counts as full
}

// Audit says how long the trail stays, and where else it goes.
type Audit struct {
	Retention      time.Duration
	RequireArchive bool   // expire only what an archive holds
	Stream         string // "", Stdout or a file's path
}

// Values of Audit.Stream and Checkpoint.Output that are no path.
const (
	Stdout = "stdout"
	Syslog = "syslog" // Checkpoint.Output only
)

// Checkpoint says where signed heads of the chain are written.
type Checkpoint struct {
	Key      string // the signing key's file; "" when there are no checkpoints
	Output   string // "", Stdout, Syslog or a file's path; set whenever Key is
	Interval time.Duration
}

// Metrics is the read-only TCP listener.
type Metrics struct {
	Listen string // host:port, or "" for none
}

// Sockets are the three doors.
type Sockets struct {
	Enqueue, Consume, Control Socket
}

// Socket is one door. Its permissions are the access control.
type Socket struct {
	Path           string      // at most MaxSocketPath bytes
	Group          string      // a name or a number; "": the process's own
	Mode           os.FileMode // permission bits only
	MaxConnections int
}

// Routes says who takes the exceptions of each route.
type Routes struct {
	AutoResolve, RouteReview Route
}

// Of returns the settings of one route.
func (r Routes) Of(name queue.Route) Route {
	if name == queue.AutoResolve {
		return r.AutoResolve
	}
	return r.RouteReview
}

// Route is one way out: AUTO_RESOLVE or ROUTE_REVIEW.
type Route struct {
	Handler string // a name that Config.Handler knows
}

// Kinds of handlers. The first two are built in and are also their own names.
const (
	KindLog       = "log"
	KindConsumers = "consumers"
	KindExec      = "exec"
	KindHTTP      = "http"
)

// Handler is one handler block, or a built-in handler.
type Handler struct {
	Name    string
	Kind    string        // KindLog, KindConsumers, KindExec or KindHTTP
	Timeout time.Duration // the limit of one run; 0 for the built-in ones

	Command []string // exec: the arguments, the first an absolute path
	Env     []string // exec: names of variables that are passed on

	URL string // http: http, https or http+unix
	// Where the value of http's Authorization header comes from: a file that is read
	// for each request, or a variable. "" for none; never both, nor a user in URL.
	AuthorizationFile string
	AuthorizationEnv  string
}

// Log says what goes to stderr.
type Log struct {
	Level  string // trace, debug, info, warn or error
	Format string // json or text
}

// Handler finds a handler by the name that a route gives, the built-in ones included.
func (c Config) Handler(name string) (Handler, bool) {
	if name == KindLog || name == KindConsumers {
		return Handler{Name: name, Kind: name}, true
	}
	for _, h := range c.Handlers {
		if h.Name == name {
			return h, true
		}
	}
	return Handler{}, false
}

// Default is the configuration without a file: relative to the working
// directory, with the sockets in $RUNTIME_DIRECTORY where there is one.
func Default() Config {
	base, err := os.Getwd()
	if err != nil {
		base = "." // relative paths then stay relative, which still works
	}
	c := unplaced(base)
	c.place(base, os.Getenv("RUNTIME_DIRECTORY"))
	return c
}

// unplaced is the default of every key but those whose default is a path that
// depends on another path; place fills these.
func unplaced(base string) Config {
	return Config{
		DataDir: resolve(base, "var"),
		Store:   Store{Backend: "bbolt"},
		Queue:   defaultQueue(),
		Ledger:  Ledger{Retention: 8760 * time.Hour, MaxKeys: 50_000_000},
		Audit:   Audit{Retention: 8760 * time.Hour, RequireArchive: true},
		Checkpoint: Checkpoint{
			Interval: time.Minute,
		},
		Sockets: Sockets{
			Enqueue: Socket{Mode: 0o660, MaxConnections: 256},
			Consume: Socket{Mode: 0o660, MaxConnections: 64},
			Control: Socket{Mode: 0o600, MaxConnections: 32},
		},
		Routes: Routes{
			AutoResolve: Route{Handler: KindLog},
			RouteReview: Route{Handler: KindConsumers},
		},
		Log: Log{Level: "info", Format: "json"},
	}
}

func defaultQueue() Queue {
	return Queue{
		Concurrency:     8,
		MaxSize:         64,
		Prefetch:        32,
		LeaseTimeout:    30 * time.Second,
		MaxLeaseTimeout: time.Hour,
		MaxPrefetch:     1024,
		DrainTimeout:    30 * time.Second,
		MaxAttempts:     10,
		MaxDeliveries:   20,
		RetryInitial:    time.Second,
		RetryMax:        5 * time.Minute,
		OnDeadLetter:    HoldKey,
		ConsumerLag:     5 * time.Minute,
		MaxBacklog:      10_000_000,
		MaxOpenKeys:     1_000_000,
		MaxDeadLetters:  1_000_000,
		MinFreeBytes:    64 << 20,
		OnSaturated:     BlockIntake,
		MaxLineBytes:    256 << 10,
		MaxIntakeBytes:  32 << 20,
		ReceiptTimeout:  5 * time.Second,
	}
}

// sortHandlers brings handlers into the order that a Config promises. The kinds
// stay together because Effective opens one object for each.
func sortHandlers(handlers []Handler) {
	slices.SortFunc(handlers, func(a, b Handler) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
}
