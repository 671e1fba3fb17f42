// Package socket is the edge where NDJSON meets the queue: the Unix sockets that
// producers write exceptions to and consumers get them from, and everything such a
// socket needs to be safe on a host that it shares with others.
//
// # The life of a line
//
// A [Listener] owns a path in the file system. It is reachable only by those whom
// its mode and group let in, from its first instant to its last, and it takes over
// only from a process that is certainly dead. [Listener.Serve] accepts connections
// up to a limit and gives each, as a [Conn] that knows its peer, to a handler of
// its own goroutine.
//
// There a lineReader cuts the stream into batches of lines, with memory that does
// not depend on what the sender does: a line may be as long as it likes, it is then
// kept as its beginning, its length and its hash. A batch becomes one request to the
// core. When the core has answered, which is after the commit and never before (P1),
// a receiptWriter sends one receipt per line, in order. It never makes the reader of
// lines wait longer than a time-out: a producer that does not read its receipts loses
// them, not its lines (P6, P8).
//
// # A consumer
//
// A connection to the consume socket begins with a line that asks to be attached: a
// name, how many exceptions at most, which routes, for how long. The core, a [Desk],
// gives it a [Session] or refuses. From then on one goroutine asks the session what
// there is to tell and sends it at the pace at which it is taken; another reads
// answers. Those that arrived together become one request, in their order, and each
// gets its reply after the commit. An answer is dated when it was read.
//
// A connection that ends keeps its leases: whoever comes back under the name has them
// again. Only a consumer that says so puts them back.
//
// # Limits
//
// Connections, bytes of a line, lines of a batch, bytes of what is unsent: each is a
// named limit, and reaching it has an answer. There is no idle time-out: a producer
// may be silent for as long as it likes; it then costs 4 KiB, or one chunk of 64 KiB
// if it fell silent in the middle of a burst.
package socket
