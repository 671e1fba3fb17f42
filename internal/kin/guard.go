package kin

import (
	"fmt"
	"io"
	"time"
)

// Guard is the guard's half: it waits for the end of its leader, which closes in, and
// ends what bears its mark. The caller sees to it that no signal that may be meant for
// the leader ends this process.
func Guard(mark string, in io.Reader) error {
	m, err := parseMark(mark)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, in); err != nil { // nothing is ever said
		return fmt.Errorf("wait for the end of the leader: %w", err)
	}
	h := hunt{limit: guardTime, wanted: func(pid int) bool { return markOn(pid) == m && living(pid) }}
	_, err = h.run()
	return err
}

// guardTime is how long a guard goes on; what it cannot end the successor will meet.
const guardTime = time.Minute
