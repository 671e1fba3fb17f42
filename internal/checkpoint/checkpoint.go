package checkpoint

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"breakwater/queue"
)

// Checkpoint is a head of a store's trail at a time.
type Checkpoint struct {
	Origin string // of the store; see queue.Origin
	N      uint64 // the number of the head's last record: how many records there were
	Head   queue.Head
	Time   time.Time // when it was signed, by the signer's clock
}

// The extension lines.
const (
	blockLine  = "block "
	timeLine   = "time "
	timeLayout = "2006-01-02T15:04:05.000000Z"
)

// Text returns what is signed.
func (c Checkpoint) Text() string {
	return fmt.Sprintf("%s\n%d\n%s\n%s%d\n%s%s\n", c.Origin, c.N, base64.StdEncoding.EncodeToString(c.Head.Hash[:]),
		blockLine, c.Head.Block, timeLine, c.Time.UTC().Format(timeLayout))
}

// Witness is the checkpoint as a verification looks for it.
func (c Checkpoint) Witness() queue.Witness { return queue.Witness{Head: c.Head, N: c.N} }

// errText: a text that is signed and is no checkpoint of ours.
var errText = errors.New("its text is no checkpoint of a breakwater")

// parse reads what Text wrote, and no other spelling of it. Further extension lines
// are ignored: a later version may have some.
func parse(text string) (c Checkpoint, err error) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) < 5 || lines[0] == "" {
		return c, errText
	}
	c.Origin = lines[0]
	if c.N, err = strconv.ParseUint(lines[1], 10, 64); err != nil {
		return c, errText
	}
	hash, err := base64.StdEncoding.DecodeString(lines[2])
	if err != nil || len(hash) != len(c.Head.Hash) {
		return c, errText
	}
	c.Head.Hash = queue.Hash(hash)
	block, ok := strings.CutPrefix(lines[3], blockLine)
	if c.Head.Block, err = strconv.ParseUint(block, 10, 64); err != nil || !ok {
		return c, errText
	}
	at, ok := strings.CutPrefix(lines[4], timeLine)
	if c.Time, err = time.Parse(timeLayout, at); err != nil || !ok {
		return c, errText
	}
	if !strings.HasPrefix(text, c.Text()) {
		return c, errText
	}
	return c, nil
}
