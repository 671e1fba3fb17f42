package queue

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"
)

// chainDomain begins everything that the chain hashes, so that no hash of it can
// be taken for a hash of something else. It names the format; another format of
// blocks gets another line.
const chainDomain = "breakwater audit block v1\n"

// Head is the state of the chain after a block: its number, from 1, and its hash.
// Whoever was shown a head is a witness: no earlier record can be changed, added
// or left out without that hash becoming another. The zero Head is the genesis,
// before the first block.
//
// What a chain alone cannot show is that its end was cut off, or that all of it
// was written anew by someone who can write the file. Heads kept elsewhere can:
// in producers' receipts, in the witness beside the store, in signed checkpoints.
type Head struct {
	Block uint64
	Hash  Hash
}

// Next returns the head after the block that follows h and holds count records
// from number firstN on, plain as their lines. It is
//
//	SHA-256(domain ‖ previous hash ‖ block ‖ firstN ‖ count ‖ length ‖ plain)
//
// with the four numbers as 64-bit big-endian integers; every part before plain
// has a fixed length, so no two blocks are spelled alike.
func (h Head) Next(firstN uint64, count uint32, plain []byte) Head {
	buf := make([]byte, 0, len(chainDomain)+len(h.Hash)+4*8)
	buf = append(buf, chainDomain...)
	buf = append(buf, h.Hash[:]...)
	for _, n := range [...]uint64{h.Block + 1, firstN, uint64(count), uint64(len(plain))} {
		buf = binary.BigEndian.AppendUint64(buf, n)
	}
	sum := sha256.New()
	sum.Write(buf)
	sum.Write(plain)
	next := Head{Block: h.Block + 1}
	sum.Sum(next.Hash[:0])
	return next
}

// String returns the head as "BLOCK:HASH", the form in which a witness is given
// on the command line.
func (h Head) String() string { return strconv.FormatUint(h.Block, 10) + ":" + h.Hash.String() }

// ParseHead reads what String wrote; ok is false for anything else.
func ParseHead(s string) (h Head, ok bool) {
	block, digest, _ := strings.Cut(s, ":")
	n, err := strconv.ParseUint(block, 10, 64)
	if err != nil {
		return Head{}, false
	}
	b, err := hex.DecodeString(digest)
	if err != nil || len(b) != len(h.Hash) {
		return Head{}, false
	}
	h = Head{Block: n, Hash: Hash(b)}
	return h, h.String() == s
}

// MaxBlockBytes bounds the plain bytes of a block of several records. Values of
// 16 KiB are what a page-based store writes without rewriting neighbours; larger
// ones were measured to cost four times their bytes.
const MaxBlockBytes = 16 << 10

// Block is the unit in which the trail is stored and chained: consecutive records
// of one commit, as plain NDJSON. It holds at most MaxBlockBytes, or one single
// record of at most MaxRecordBytes.
type Block struct {
	Number uint64 // from 1, without gaps
	FirstN uint64 // number of its first record
	Count  uint32 // records, at least 1
	Plain  []byte // their lines
	Hash   Hash   // the head's, after this block
}

// Head returns the chain's head after the block, as the block states it.
func (b Block) Head() Head { return Head{Block: b.Number, Hash: b.Hash} }

// LastN returns the number of the block's last record.
func (b Block) LastN() uint64 { return b.FirstN + uint64(b.Count) - 1 }

// BlockWriter collects the records of one commit, numbers them, and cuts them
// into chained blocks. It belongs to whoever commits and keeps its buffers from
// one commit to the next. A commit that fails is forgotten by the next Reset,
// which says where the chain really stands.
//
// The zero value is a writer at the genesis.
type BlockWriter struct {
	head   Head   // after the blocks that are closed
	lastN  uint64 // the number given last
	buf    []byte // every line of the commit
	start  int    // where the open block begins in buf
	count  uint32 // records of the open block
	closed []span
	blocks []Block
}

// span is a closed block: its bytes are buf[from:to]. Slices of buf are made only
// at the end, because buf moves when it grows.
type span struct {
	from, to int
	firstN   uint64
	count    uint32
	head     Head
}

// keepWriterBytes bounds the buffer that a writer keeps between commits, so that
// one huge commit is not paid for ever.
const keepWriterBytes = 4 << 20

// Reset begins a commit after head, whose last record has the number lastN (0 at
// the genesis). What Blocks returned before is no longer valid.
func (w *BlockWriter) Reset(head Head, lastN uint64) {
	buf, closed, blocks := w.buf[:0], w.closed[:0], w.blocks[:0]
	if cap(buf) > keepWriterBytes {
		buf = nil
	}
	*w = BlockWriter{head: head, lastN: lastN, buf: buf, closed: closed, blocks: blocks}
}

// Add appends a record, setting its N to the next number, which it returns.
func (w *BlockWriter) Add(r *Record) uint64 {
	w.lastN++
	r.N = w.lastN
	from := len(w.buf)
	w.buf = r.AppendNDJSON(w.buf)
	if w.count > 0 && len(w.buf)-w.start > MaxBlockBytes {
		w.closeBlock(from, w.lastN-1)
	}
	w.count++
	return r.N
}

// closeBlock ends the open block at buf[to], its last record being number lastN.
func (w *BlockWriter) closeBlock(to int, lastN uint64) {
	firstN := lastN - uint64(w.count) + 1
	w.head = w.head.Next(firstN, w.count, w.buf[w.start:to])
	w.closed = append(w.closed, span{from: w.start, to: to, firstN: firstN, count: w.count, head: w.head})
	w.start, w.count = to, 0
}

// Blocks ends the commit and returns its blocks in order, none when nothing was
// added. They share the writer's memory and are valid until Reset.
func (w *BlockWriter) Blocks() []Block {
	if w.count > 0 {
		w.closeBlock(len(w.buf), w.lastN)
	}
	w.blocks = w.blocks[:0]
	for _, s := range w.closed {
		w.blocks = append(w.blocks, Block{
			Number: s.head.Block, FirstN: s.firstN, Count: s.count,
			Plain: w.buf[s.from:s.to:s.to], Hash: s.head.Hash,
		})
	}
	return w.blocks
}

// OpenBlock returns the number of the block that the record added last lies in.
func (w *BlockWriter) OpenBlock() uint64 { return w.head.Block + 1 }

// Len returns how many records the commit has so far.
func (w *BlockWriter) Len() int {
	n := int(w.count)
	for _, s := range w.closed {
		n += int(s.count)
	}
	return n
}

// Size returns how many plain bytes the commit has so far: what bounds a commit.
func (w *BlockWriter) Size() int { return len(w.buf) }

// Head returns the head after the last block that Blocks returned. With LastN it
// is what the next Reset wants, once the commit is on disk.
func (w *BlockWriter) Head() Head { return w.head }

// LastN returns the number that was given last.
func (w *BlockWriter) LastN() uint64 { return w.lastN }

// Plain returns all lines of the commit, in order, valid until Reset: what an
// observer of the trail is shown after the commit.
func (w *BlockWriter) Plain() []byte { return w.buf }
