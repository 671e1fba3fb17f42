package socket

import "sync"

const (
	// idleBuffer is what a silent connection costs: 256 of them are 1 MiB.
	idleBuffer = 4 << 10
	// chunkBuffer is what a busy connection reads at once. At 350 bytes a line it
	// is some 190 lines, enough for one commit to be shared by many; larger ones
	// were not faster, as the kernel's own buffer for a Unix socket is 208 KiB.
	chunkBuffer = 64 << 10
)

// bufferPool lends buffers to all connections of a server, so that what one needed
// in a burst serves the next. Buffers of other sizes than the two (lines longer
// than a chunk) are made and forgotten: they are rare, and keeping them would keep
// the memory of the longest line seen.
type bufferPool struct {
	idle, chunk sync.Pool // *[]byte
	batches     sync.Pool // *lineBatch
}

// get returns a buffer of at least n bytes, its length its size.
func (p *bufferPool) get(n int) []byte {
	switch {
	case n <= idleBuffer:
		if b, ok := p.idle.Get().(*[]byte); ok {
			return *b
		}
		return make([]byte, idleBuffer)
	case n <= chunkBuffer:
		if b, ok := p.chunk.Get().(*[]byte); ok {
			return *b
		}
		return make([]byte, chunkBuffer)
	}
	return make([]byte, n)
}

// put takes a buffer back. The caller must hold nothing that points into it.
func (p *bufferPool) put(b []byte) {
	switch len(b) {
	case idleBuffer:
		p.idle.Put(&b)
	case chunkBuffer:
		p.chunk.Put(&b)
	}
}

func (p *bufferPool) batch() *lineBatch {
	if b, ok := p.batches.Get().(*lineBatch); ok {
		return b
	}
	return &lineBatch{pool: p}
}
