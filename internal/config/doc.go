// Package config reads breakwater's configuration: one HCL file, strictly.
//
// The life of a configuration file:
//
//	Find    which file it is: flag, $BREAKWATER_CONFIG, ./config.hcl, /etc/breakwater/config.hcl, none
//	Load    opens it without ever blocking and reads at most MaxFileBytes
//	Parse   text checks → a scan of the tokens → the HCL parser → keys → interlocks
//	Config  a plain struct in Go's own types: time.Duration, int64 bytes, os.FileMode, absolute paths
//
// Every key is described once, in schema.go: its name, its bounds, whether a
// reload may change it, and the field that it fills. Reading, printing (HCL and
// Effective), comparing (Diff and Reloadable) and the test of the reference file
// are all walks over that one table, so that a new key cannot be forgotten in
// one of them.
//
// Three rules explain most of what follows:
//
//   - A file holds literals only. HCL would evaluate "4" as a number, true as a
//     string and 1e3 as 1000; all three are mistakes more often than wishes. So
//     the syntax tree is read as it stands and nothing is ever evaluated.
//   - Every problem is reported at once, each with its file, line and a hint.
//     A file with any problem yields no Config at all: half a configuration is
//     never in force.
//   - The HCL parser is recursive and runs out of stack on hostile input, which
//     in Go ends the process. What could make it recurse is counted before it
//     is called (scan.go), so that a reload can never kill a running appliance.
//
// The package knows HCL and is the only one that does.
package config
