package config

import "time"

// Limits of the file itself.
const (
	// MaxFileBytes is the largest file that is read. The reference with all its
	// comments is about 10 KiB.
	MaxFileBytes = 256 << 10

	// MaxProblems is how many problems are listed; the rest are counted.
	MaxProblems = 100

	// MaxHandlers is how many handler blocks a file may have.
	MaxHandlers = 64

	// maxDepth is how deep brackets, quotes and templates may nest. A correct
	// file needs three: block, list, string.
	maxDepth = 32

	// maxOperators is how many operators a file may hold before it is refused
	// unparsed. A correct file holds none; a few are let through so that the
	// message can be about the key that has one.
	maxOperators = 64

	// maxPieces is how many pieces the scanner may cut one text into, at its $ and %.
	maxPieces = 1024

	// maxOpenComments is how many comments may lack their end before the file is
	// refused unscanned: each costs a pass over the rest of the file, 0.5 ms at most.
	maxOpenComments = 64
)

// Limits of texts, in bytes.
const (
	// MaxSocketPath is the longest path that a Unix socket can have on Linux:
	// sun_path is 108 bytes and the last one is NUL. Measured: 107 binds, 108
	// fails with "invalid argument".
	MaxSocketPath = 107

	maxPath        = 4095 // PATH_MAX without its NUL
	maxURL         = 2048
	maxGroup       = 255
	maxListen      = 261 // a host name of 253, a colon, a port, brackets
	maxHandlerName = 63
	maxArguments   = 256
	maxArgument    = 16 << 10
	maxEnv         = 256
	maxEnvName     = 255
	maxSuggestable = 64 // longer names are not compared for a "did you mean"
)

// Upper bounds of numbers. Each is far above what one host can use, and low
// enough that the value fits its Go type in every unit: the largest duration,
// MaxRetention, is a third of what time.Duration can hold.
const (
	MaxConcurrency    = 1024 // partition slots; a worker beyond them would never get a key
	MaxQueueSize      = 65_536
	MaxPrefetch       = 65_536
	MaxLease          = 7 * 24 * time.Hour
	MaxDrain          = 24 * time.Hour
	MaxAttempts       = 1000
	MaxDeliveries     = 10_000
	MaxRetry          = 24 * time.Hour
	MaxLag            = 30 * 24 * time.Hour
	MaxBacklog        = 1_000_000_000
	MaxOpenKeys       = 16_777_216 // about 1.3 GB of table; 100,000 are the measured case
	MaxDeadLetters    = 100_000_000
	MaxBytes          = 16 << 40 // 16 TiB: a store's size, a disk's free space
	MinStoreBytes     = 1 << 20  // below this nothing but the reserve would fit
	MinLineBytes      = 1 << 10
	MaxLineBytes      = 16 << 20
	MaxIntakeBytes    = 1 << 30
	MaxReceiptTimeout = time.Hour
	MaxRetention      = 100 * 365 * 24 * time.Hour
	MaxLedgerKeys     = 1_000_000_000
	MaxCheckpoint     = 24 * time.Hour
	MaxConnections    = 10_000
	MaxHandlerTimeout = 24 * time.Hour

	// MinLease is the shortest lease: a few commits long.
	MinLease = 10 * time.Millisecond
)

// DefaultHandlerTimeout is a handler's timeout_ms where it gives none. It is
// below the default drain_timeout_s, so that a drain with defaults is clean.
const DefaultHandlerTimeout = 20 * time.Second
