// Package systemd speaks with the service manager, and is silent where there is
// none: without NOTIFY_SOCKET and LISTEN_FDS everything here does nothing, so
// the same binary runs under systemd, in a container and by hand.
//
// Three things are said or asked:
//
//   - Notifier tells the manager what state the process is in (sd_notify(3)):
//     recovering and in need of more time, ready, reloading, stopping.
//   - Notifier.Watchdog keeps the manager from restarting the process, but only
//     as long as a probe of real work succeeds. A pinger that runs beside a
//     deadlocked store and says "alive" is worse than no watchdog.
//   - Listeners takes over the sockets that the manager opened (sd_listen_fds(3)).
//
// New and Listeners take their variables out of the environment. A handler's
// command that inherited NOTIFY_SOCKET could declare our process ready, and one
// that inherited LISTEN_FDS would look for sockets among its own descriptors.
// Both must be called once, at the start, before anything else starts a process.
package systemd
