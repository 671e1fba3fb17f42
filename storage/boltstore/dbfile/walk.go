package dbfile

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// Limits of a tree that we accept. bbolt has none, and follows a damaged one
// until its stack overflows, which nothing can catch.
const (
	// maxDepth is far more than 2^31 pages need, even at two keys per page.
	maxDepth = 48
	// maxNesting is how deep buckets may lie in buckets.
	maxNesting = 16
	// maxPages bounds the walker's bitmap to 256 MiB: 8 TiB of 4 KiB pages.
	maxPages = uint64(1) << 31
	// maxBranchBytes bounds a branch page with its overflow. bbolt's own hold
	// at most a few keys more than a page.
	maxBranchBytes = 4 << 20

	// chunkPages are read at once while pages follow each other in the file.
	chunkPages = 32
)

// WalkReport counts what a walk over every reachable page found.
type WalkReport struct {
	Pages   int64 // reachable pages, overflow and the list of free pages included
	Free    int64 // the rest, below the high-water mark
	Leaked  int64 // of these, not in the list of free pages (where there is one)
	Keys    int64 // elements in leaf pages, sub-buckets included
	Buckets int64
}

// Verify checks every reachable page of the file at path, as Open does after an
// unclean stop: headers, element offsets, order of keys, no page used twice,
// none used and free. It takes a shared lock, writes nothing, never maps the
// file, and needs memory for one bit per page. Contents are not its business:
// every record of the store above has a checksum of its own.
func Verify(o Options) (WalkReport, error) {
	o.ReadOnly = true
	f := &File{opts: o}
	defer f.Close()
	if exists, err := checkPath(o.Path); err != nil {
		return WalkReport{}, err
	} else if !exists {
		return WalkReport{}, fileErr(ErrAbsent, o.Path, nil)
	}
	if err := f.acquire(); err != nil {
		return WalkReport{}, err
	}
	newest, _, err := readMeta(f.file, o.Path)
	if err != nil {
		return WalkReport{}, err
	}
	if err := preread(f.file, newest.Bytes(), o); err != nil {
		return WalkReport{}, err
	}
	return walk(f.file, newest, o)
}

// subtree is a bucket that waits to be walked.
type subtree struct {
	root    uint64
	nesting int
}

// walker goes depth first, without recursion, so that what it needs does not
// depend on what the file says.
type walker struct {
	m    Meta
	o    Options
	told int64 // pages at the last progress

	pages   *pageReader
	seen    []uint64 // one bit per page
	stack   []branch // the way down to where we are; buffers are reused
	depth   int      // frames of stack in use
	waiting []subtree
	nesting int    // of the bucket that is being walked
	table   span   // the leaf at hand, for its table of elements
	keys    span   // the same leaf, for keys
	prev    []byte // buffer for the key before the one at hand
	report  WalkReport
}

// walk checks the whole tree below the newest meta page.
func walk(f io.ReaderAt, m Meta, o Options) (WalkReport, error) {
	w := newWalker(f, m, o)
	if err := w.run(); err != nil {
		return w.report, w.fail(err)
	}
	return w.report, nil
}

func newWalker(f io.ReaderAt, m Meta, o Options) *walker {
	return &walker{
		m:     m,
		o:     o,
		pages: &pageReader{r: f, size: m.PageSize, high: m.HighWater},
		seen:  make([]uint64, m.HighWater/64+1),
		stack: make([]branch, maxDepth),
	}
}

func (w *walker) run() error {
	free := int64(0)
	if w.m.HasFreelist() {
		n, err := w.claimList()
		if err != nil {
			return err
		}
		free = n
	}
	if err := w.enqueue(w.m.Root, 0); err != nil {
		return fmt.Errorf("root bucket: %w", err)
	}
	for len(w.waiting) > 0 {
		last := len(w.waiting) - 1
		next := w.waiting[last]
		w.waiting = w.waiting[:last]
		w.nesting = next.nesting
		if err := w.tree(next.root); err != nil {
			return err
		}
	}
	w.report.Free = int64(w.m.HighWater) - 2 - w.report.Pages
	if w.m.HasFreelist() {
		w.report.Leaked = w.report.Free - free
		return w.freeIsFree()
	}
	return nil
}

// tree walks one bucket. Its root has been claimed already.
func (w *walker) tree(root uint64) error {
	w.report.Buckets++
	if err := w.visit(root, nil, nil); err != nil {
		return err
	}
	for w.depth > 0 {
		top := &w.stack[w.depth-1]
		if top.next == top.count {
			w.depth--
			continue
		}
		child, low, high := top.step()
		if err := w.claim(child, 1); err != nil {
			return fmt.Errorf("page %d: element %d: %w", top.id, top.next-1, err)
		}
		if err := w.visit(child, low, high); err != nil {
			return err
		}
	}
	return nil
}

// visit reads one page whose keys start at low and end before high, and checks a leaf at
// once, while a branch goes on the stack. nil is no bound.
func (w *walker) visit(id uint64, low, high []byte) error {
	buf, err := w.pages.page(id)
	if err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	h := parseHeader(buf)
	switch {
	case h.id != id:
		return fmt.Errorf("page %d says that it is page %d", id, h.id)
	case h.flags != flagBranch && h.flags != flagLeaf:
		return fmt.Errorf("page %d is neither branch nor leaf (flags %#x)", id, h.flags)
	}
	if err := w.claim(id+1, uint64(h.overflow)); err != nil {
		return fmt.Errorf("page %d with %d overflow pages: %w", id, h.overflow, err)
	}
	if err := w.tell(); err != nil {
		return err
	}
	if h.flags == flagLeaf {
		err = w.leaf(h, buf, low, high)
	} else {
		err = w.push(h, buf, low, high)
	}
	if err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

// push checks a branch page and makes it the top of the stack.
func (w *walker) push(h header, first, low, high []byte) error {
	if w.depth == maxDepth {
		return fmt.Errorf("the tree is deeper than %d pages", maxDepth)
	}
	b := &w.stack[w.depth]
	if err := b.load(w.pages, h, first); err != nil {
		return err
	}
	if err := b.check(low, high); err != nil {
		return err
	}
	w.depth++
	return nil
}

// enqueue claims the root of a bucket and leaves it for later.
func (w *walker) enqueue(root uint64, nesting int) error {
	if nesting > maxNesting {
		return fmt.Errorf("buckets are nested deeper than %d", maxNesting)
	}
	if err := w.claim(root, 1); err != nil {
		return err
	}
	w.waiting = append(w.waiting, subtree{root, nesting})
	return nil
}

var (
	errOutOfRange = errors.New("refers to a page outside the file's pages")
	errUsedTwice  = errors.New("refers to a page that is used elsewhere")
)

// claim marks n pages as used, each for the first time.
func (w *walker) claim(id, n uint64) error {
	if n == 0 {
		return nil
	}
	if id < 2 || id >= w.m.HighWater || n > w.m.HighWater-id {
		return fmt.Errorf("%w: %d", errOutOfRange, id)
	}
	for p := id; p < id+n; p++ {
		if w.isSeen(p) {
			return fmt.Errorf("%w: %d", errUsedTwice, p)
		}
		w.seen[p/64] |= 1 << (p % 64)
	}
	w.report.Pages += int64(n)
	return nil
}

func (w *walker) isSeen(id uint64) bool { return w.seen[id/64]&(1<<(id%64)) != 0 }

// tell reports progress, and asks whether to go on, about once per MiB.
func (w *walker) tell() error {
	if (w.report.Pages-w.told)*w.m.PageSize < 1<<20 {
		return nil
	}
	w.told = w.report.Pages
	w.o.progress(StepWalk, w.told*w.m.PageSize, w.m.Bytes())
	return w.o.goOn()
}

// fail files what the walk found: neither an error of reading nor an end from
// outside is damage.
func (w *walker) fail(err error) error {
	switch {
	case w.o.goOn() != nil:
		return err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fileErr(ErrTruncated, w.o.Path, err)
	case errors.As(err, new(unix.Errno)):
		return ioErr(w.o.Path, "reading", err)
	}
	return fileErr(ErrDamaged, w.o.Path, err)
}
