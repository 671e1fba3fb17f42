package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/syslog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"breakwater/internal/checkpoint"
	"breakwater/internal/config"
	"breakwater/internal/control"
	"breakwater/internal/metrics"
	"breakwater/queue"
)

const (
	// checkpointRetry is when a checkpoint that could not be written is tried again, if
	// that is sooner than the next one.
	checkpointRetry = 30 * time.Second
	// checkpointPatience is how long a drain waits for the last one, and an archive for
	// its own. An output that takes nothing must hold up neither.
	checkpointPatience = 5 * time.Second
	// checkpointComplain is how many failures in a row make one line of the log.
	checkpointComplain = 100
	// checkpointMode of the file: it is no secret, and somebody has to carry it off.
	checkpointMode = 0o640
)

// checkpoints signs heads of the trail and hands them to a place outside the store's
// file: at the start, at an interval if the head has moved, for each archive, and as
// the last thing of a drain. One goroutine does all of it, so a slow output makes
// checkpoints late and nothing else. A nil one does nothing.
type checkpoints struct {
	signer   *checkpoint.Signer
	interval time.Duration
	status   func(context.Context, time.Time) (queue.StoreStatus, error)
	write    func(signed []byte) error
	log      hclog.Logger

	asked chan checkpointRequest
	stop  context.CancelFunc // set by serve
	ended chan struct{}      // closed when run has left

	mu    sync.Mutex // of what others read
	state control.Checkpoint
}

// checkpointRequest asks for a checkpoint of a head, or of the present one.
type checkpointRequest struct {
	of   *queue.Witness
	done chan error
}

// openCheckpoints reads the key; nil where none is configured.
func (a *appliance) openCheckpoints() (*checkpoints, error) {
	o := a.o.Config.Checkpoint
	if o.Key == "" {
		return nil, nil
	}
	signer, err := checkpoint.ReadSigner(o.Key)
	var k *checkpoint.KeyError
	if errors.As(err, &k) {
		return nil, &unusableError{"checkpoint.key: " + k.What, k.Hint}
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoint.key: %w", err)
	}
	c := &checkpoints{
		signer: signer, interval: o.Interval, log: a.log.Named("checkpoint"),
		write: outputOf(o.Output, a.o.Stdout),
		asked: make(chan checkpointRequest), ended: make(chan struct{}),
	}
	c.state.Key = signer.Name()
	return c, nil
}

// begin signs from now on, until end: the store is there.
func (c *checkpoints) begin(status func(context.Context, time.Time) (queue.StoreStatus, error)) {
	if c == nil {
		return
	}
	c.status = status
	var ctx context.Context
	ctx, c.stop = context.WithCancel(context.Background())
	c.log.Info("heads of the trail are signed", "key", c.signer.Name(), "interval_ms", c.interval.Milliseconds())
	go c.run(ctx)
}

// run writes checkpoints until ctx ends.
func (c *checkpoints) run(ctx context.Context) {
	defer close(c.ended)
	timer := time.NewTimer(0) // the first at once
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-c.asked:
			r.done <- c.one(ctx, r.of)
		case <-timer.C:
			next := c.interval
			if c.one(ctx, nil) != nil {
				next = min(next, checkpointRetry)
			}
			timer.Reset(next)
		}
	}
}

// one signs and writes a checkpoint of a head, or of the present one if that has
// moved since the last.
func (c *checkpoints) one(ctx context.Context, of *queue.Witness) error {
	st, err := c.status(ctx, time.Now())
	if err != nil {
		if ctx.Err() == nil {
			c.failed(err)
		}
		return err
	}
	if of == nil {
		if st.Head.Block == 0 || st.Head == c.last() {
			return nil
		}
		of = &queue.Witness{Head: st.Head, N: st.Records}
	}
	cp := checkpoint.Checkpoint{Origin: st.Origin, N: of.N, Head: of.Head, Time: time.Now()}
	signed, err := c.signer.Sign(cp)
	if err == nil {
		err = c.write(signed)
	}
	if err != nil {
		c.failed(err)
		return err
	}
	c.wrote(cp)
	return nil
}

func (c *checkpoints) last() queue.Head {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.Head
}

// wrote notes a checkpoint that is where it belongs.
func (c *checkpoints) wrote(cp checkpoint.Checkpoint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state.FailingSince != (time.Time{}) {
		c.log.Info("checkpoints are written again", "failures", c.state.Failing)
	}
	c.state.FailingSince, c.state.Failing, c.state.Error = time.Time{}, 0, ""
	c.state.Written++
	if cp.N >= c.state.N { // an archive's may be older
		c.state.N, c.state.Head, c.state.At = cp.N, cp.Head, cp.Time
	}
	c.log.Debug("checkpoint", "n", cp.N, "block", cp.Head.Block)
}

// failed notes one that is not. The log hears of the first of a row, and of every
// hundredth.
func (c *checkpoints) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state.FailingSince == (time.Time{}) {
		c.state.FailingSince = time.Now()
	}
	if c.state.Failing%checkpointComplain == 0 {
		c.log.Error("no checkpoint could be written; it is tried again", "failures", c.state.Failing+1, "error", err.Error())
	}
	c.state.Failing++
	c.state.Failed++
	c.state.Error = err.Error()
}

// report says how the checkpoints are doing; nil where there are none.
func (c *checkpoints) report() *control.Checkpoint {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.state
	return &s
}

// counts are the checkpoints for a scrape.
func (c *checkpoints) counts() metrics.Checkpoints {
	s := c.report()
	if s == nil {
		return metrics.Checkpoints{}
	}
	return metrics.Checkpoints{Written: s.Written, Failed: s.Failed, Records: s.N, At: s.At}
}

// ask has a checkpoint written now, and waits for it as long as ctx lasts: of a head
// with its last record, as an archive has it, or with nil of the present one.
func (c *checkpoints) ask(ctx context.Context, of *queue.Witness) error {
	if c == nil {
		return nil
	}
	r := checkpointRequest{of: of, done: make(chan error, 1)}
	select {
	case c.asked <- r:
	case <-c.ended:
		return errors.New("breakwater is ending")
	case <-ctx.Done():
		return fmt.Errorf("wait for the checkpoint before: %w", context.Cause(ctx))
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("write the checkpoint: %w", context.Cause(ctx))
	}
}

// farewell is the checkpoint of a drain: it has the record of the drain, too.
func (c *checkpoints) farewell() {
	ctx, cancel := context.WithTimeout(context.Background(), checkpointPatience)
	defer cancel()
	if err := c.ask(ctx, nil); err != nil {
		c.log.Error("the drain has no checkpoint", "error", err.Error())
	}
}

// end ends the signing. An output that does not return is left alone: the process
// ends anyway.
func (c *checkpoints) end() {
	if c == nil || c.stop == nil {
		return
	}
	c.stop()
	select {
	case <-c.ended:
	case <-time.After(checkpointPatience):
	}
}

// outputOf is where signed checkpoints go. Each call is one of them.
func outputOf(to string, stdout io.Writer) func(signed []byte) error {
	switch to {
	case config.Stdout:
		return func(signed []byte) error {
			_, err := stdout.Write(checkpoint.Line(signed))
			return err
		}
	case config.Syslog:
		return toSyslog
	}
	return func(signed []byte) error { return appendCheckpoint(to, signed) }
}

// toSyslog sends one datagram to the host's syslog. It is connected to anew each time:
// once a minute, and the daemon may have been restarted.
func toSyslog(signed []byte) error {
	w, err := syslog.New(syslog.LOG_DAEMON|syslog.LOG_NOTICE, "breakwater")
	if err != nil {
		return fmt.Errorf("connect to syslog: %w", err)
	}
	_, err = w.Write(checkpoint.Line(signed))
	return errors.Join(err, w.Close())
}

// appendCheckpoint adds a checkpoint to a file and sees it on the disk. The file is
// opened each time, so a rotation needs no signal. What a crash left unfinished is
// ended first; what can't be finished is taken back.
func appendCheckpoint(path string, signed []byte) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, checkpointMode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a file", path)
	}
	size := info.Size()
	if _, err := f.Write(append(ending(f, size), append(signed, '\n')...)); err != nil {
		return errors.Join(err, f.Truncate(size))
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if size == 0 {
		return syncDir(filepath.Dir(path))
	}
	return nil
}

// ending is what a file lacks of the blank line that ends a checkpoint.
func ending(f io.ReaderAt, size int64) []byte {
	const blank = "\n\n"
	end := make([]byte, min(size, int64(len(blank))))
	_, _ = f.ReadAt(end, size-int64(len(end))) // what can't be read gets its blank line
	switch {
	case size == 0 || string(end) == blank:
		return nil
	case end[len(end)-1] == '\n':
		return []byte("\n")
	}
	return []byte(blank)
}

// syncDir sees a new file's name on the disk.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
