// Package house holds the project's promises about itself, as tests.
//
// It has no code to import. What a reader would otherwise have to be told in
// review is stated here once, each rule with its reason, and fails when broken:
//
//   - arch: which package may import which, and which package is the one door
//     to each dependency (arch_table_test.go is the map of the house);
//   - tidy: sizes, names, comments, and the few calls that are never right;
//   - text: what no file of the repository may say;
//   - docs: links between documents lead somewhere;
//   - packaging: the systemd units agree with the code and with each other.
//
// The tests read and parse the files themselves. A test that asks a tool (go
// list, git) is passed from the test cache after the tree has changed; files
// that a test opens are part of its cache key.
//
// Every check is tested in turn: it must flag a small source that breaks its
// rule, it must let one pass that keeps it, and it fails when it finds nothing
// to look at, because a check that reads no file proves nothing.
package house
