// Package kin ends what a process has started, when that process is gone.
//
// A process that is killed ends none of its children, and the kernel ends at most
// the next of them (the parent-death signal), not theirs. What works on for a dead
// server may meet the redelivery of its own exception: two handlers of one delivery at
// once (P4).
//
// # The mark
//
// Whoever is to be found must be recognised, whatever has become of it: its parent is
// dead, its process group or session may be a new one (timeout, setsid, a shell with
// job control), its environment cleared, its name overwritten. So a process that leads
// (Lead) bears a mark that the kernel hands on to everything that descends from it,
// through fork and exec: the soft limit RLIMIT_LOCKS. It bounded the number of file
// locks in Linux 2.4 up to 2.4.24; no kernel since has looked at it, but all inherit it
// and show it in /proc/PID/limits. Nothing is registered, so nothing is forgotten: a
// child has the mark from its first moment on.
//
// A mark is a line and a leader. The line is what leaders succeed each other in: the
// place of a store. The leader is the process that bears the mark first.
//
// # Who ends what
//
//   - The successor: before a leader takes over, whatever is of its line and still there is
//     ended, and waited for. It must have made sure that its predecessor has let go: a
//     server does it under the store's lock. This is what correctness rests on.
//   - The guard: a child that does nothing but wait for the end of its leader, and then
//     ends what bears its mark. It needs no successor, and is quick; if it is killed
//     too, the successor is still there.
//   - The leader itself, when it ends in good order (Release).
//
// What is out of reach: processes of another user (a setuid program), and what was
// started by somebody else on a command's behalf (systemd-run, a container's daemon, at,
// ssh): that descends from them.
package kin
