package dbfile

// Flags in a page's header; exactly one is set.
const (
	flagBranch   = 0x01
	flagLeaf     = 0x02
	flagMeta     = 0x04
	flagFreelist = 0x10
)

// WalkReport counts what a walk over every reachable page found.
type WalkReport struct {
	Pages int64
}

func (f *File) readThrough(m Meta) error { return nil }
