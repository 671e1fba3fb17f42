package dispatch

import (
	"context"

	"breakwater/queue"
)

// What tests ask of a Runner and the program does not: a stream of lines is answered bit
// by bit, and a configuration changes as a whole.

// Submit is Stream for who waits for all receipts.
func (r *Runner) Submit(ctx context.Context, peer queue.Peer, lines []queue.Submission) (queue.AdmitResult, error) {
	var res queue.AdmitResult
	err := r.Stream(ctx, peer, lines, func(receipts []queue.Receipt, head queue.Head) {
		res.Receipts = append(res.Receipts, receipts...)
		res.Head = head
	})
	if err != nil {
		return queue.AdmitResult{}, err
	}
	return res, nil
}

// Configure changes the settings alone. What is under way keeps the old ones.
func (r *Runner) Configure(s Settings) {
	r.settings.Store(&s)
	r.Wake()
}
