package doctor

import (
	"io/fs"
	"time"

	"breakwater/internal/config"
	"breakwater/internal/control/api"
)

// Mode is how the facts were gathered.
type Mode string

// The modes.
const (
	Running Mode = "running" // a breakwater was asked over its control socket
	Stopped Mode = "stopped" // nobody answered: the file was opened for reading
	Copy    Mode = "copy"    // a file that was named, without a configuration
)

// Facts are what is known. The zero value of a part says that nothing is known of it;
// why stands beside it.
type Facts struct {
	Mode   Mode
	Now    time.Time
	Config Config
	Host   Host
	File   File

	// Status is what breakwater, or the file, says of itself; nil: StatusWhy.
	Status    *api.Status
	StatusWhy string
	// Silent is why there is no Status although somebody listens on the control socket.
	Silent error

	// Future is the first record of the trail that is later than Now by more than
	// clocks differ; nil: there is none, or FutureWhy.
	Future    *Record
	FutureWhy string

	// First is the first record that the trail has; nil: FutureWhy.
	First *Record
	// Restored is the last RESTORED of a store that no archive was made of since; nil:
	// there is none, or it is not known.
	Restored *Record

	// InForce are the limits that a running breakwater works with, by the names that
	// receipts give them; nil: HandlersWhy.
	InForce map[string]int64
	// Stuck are in-process routes that have work and settle nothing.
	Stuck []string

	// Handlers is how long in-process handlers took; nil: HandlersWhy.
	Handlers    []Handled
	HandlersWhy string
}

// Config is the configuration that the command line names.
type Config struct {
	Path     string           // its file; "": built-in defaults
	Value    *config.Config   // nil: it cannot be used, or none is read; Why
	Why      string           // why there is no Value
	Problems *config.Problems // what is wrong with it
	Host     []config.Problem // what the host lacks for it
	Warnings []config.Problem
}

// Host is what this host says.
type Host struct {
	Places []Place

	// Foreign: who asks is neither root nor the owner of the store's folder, so that
	// what may not be looked at says nothing of what breakwater may.
	Foreign bool

	// Descriptors is how many files a process may have open: breakwater's own limit,
	// or that of whoever asks, if it does not run (Ours). 0: DescriptorsWhy.
	Descriptors    int64
	Ours           bool
	DescriptorsWhy string
}

// Place is a file, folder or socket whose owner and mode matter.
type Place struct {
	Role   string // what it is, as the configuration says: data_dir, socket.control
	Path   string
	Widest fs.FileMode // no permission beyond these is meant
	Least  fs.FileMode // and none of these is to be missing
	Folder bool
	Ours   bool // it is to belong to whom the store's folder belongs
	Socket bool // a breakwater that runs listens there

	Exists bool
	Mode   fs.FileMode // permissions
	UID    uint32
	Err    error // why it could not be looked at
}

// File is the store's file.
type File struct {
	Path   string
	Absent bool // nothing is there

	// Refused is why it could not be opened, with the stable code and what to do.
	Refused     error
	RefusedCode string
	RefusedHint string
	Held        bool   // Refused: another process has it
	Why         string // why it was not opened, where that says nothing of the file

	Opened bool   // the next three are known
	Clean  bool   // of a running one: how the process before it left the file
	Format uint32 // its version
	Older  bool   // than what this program writes
	Origin error  // why it would not be taken into service without --restore
	Marked bool   // Origin: it is marked as a copy
	// Fallback is what is wrong with a meta page that cannot be used, so that the newest
	// commit may be missing; "": both can.
	Fallback string

	// Manifest is whether an archive's manifest lies beside it, ManifestErr what they
	// disagree in, ManifestWhy why that cannot be said.
	Manifest    bool
	ManifestErr error
	ManifestWhy string

	Mount             []string // options of the mount below it; none: not known
	FileSystem        string
	Network, Volatile bool
	FileSystemErr     error
	FreeSpace         int64 // bytes beside it; -1: FreeSpaceErr
	FreeSpaceErr      error

	// Witness is what <store>.head has seen, of which store; "" where there is none.
	WitnessBlock  uint64
	WitnessHead   string
	WitnessOrigin string
	WitnessErr    error
}

// Record is a record of the trail.
type Record struct {
	N  uint64
	TS time.Time
}

// Handled is how long the handler of a route took.
type Handled struct {
	Route string
	Of    int64 // answers
	P99   time.Duration
}
