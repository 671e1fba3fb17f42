package memstore

import (
	"context"
	"strings"

	"breakwater/queue"
)

// Pause stops all claims until Resume.
func (s *Store) Pause(ctx context.Context, a queue.Action) error {
	return s.write(ctx, func() {
		if s.paused != nil {
			return
		}
		s.paused = &queue.Pause{By: strings.Clone(a.By), Since: micros(a.Now), Reason: strings.Clone(a.Reason)}
		s.record(queue.PauseRecord(queue.EventPaused, &a))
	})
}

// Resume lets claims go on.
func (s *Store) Resume(ctx context.Context, a queue.Action) error {
	return s.write(ctx, func() {
		if s.paused == nil {
			return
		}
		s.paused = nil
		s.record(queue.PauseRecord(queue.EventResumed, &a))
	})
}

// HoldKeys makes keys wait for ReleaseKeys, whether they have messages or not.
func (s *Store) HoldKeys(ctx context.Context, a queue.Action, keys []string) ([]queue.ActionResult, error) {
	return act(ctx, s, keys, func(name string) queue.ActionResult {
		name = strings.Clone(name)
		switch {
		case s.keys[name] != nil && s.keys[name].held != nil:
		case s.holds == queue.MaxHeldKeys:
			return queue.ActionResult{Key: name, Code: queue.CodeSaturated, Error: queue.TooManyHolds}
		default:
			s.key(name).held = &queue.KeyHold{By: strings.Clone(a.By), Reason: strings.Clone(a.Reason), Since: micros(a.Now)}
			s.holds++
			s.record(queue.KeyRecord(queue.EventKeyHeld, name, &a))
			s.file(name)
		}
		return queue.ActionResult{Key: name}
	})
}

// ReleaseKeys undoes HoldKeys, and if the action says so ends the times that the keys
// wait for.
func (s *Store) ReleaseKeys(ctx context.Context, a queue.Action, keys []string) ([]queue.ActionResult, error) {
	return act(ctx, s, keys, func(name string) queue.ActionResult {
		name = strings.Clone(name)
		res, k := queue.ActionResult{Key: name}, s.keys[name]
		if k != nil {
			shown := s.describe(name, a.Now)
			if res.Wait = shown.Wait; shown.Letter != nil {
				res.Letter = shown.Letter.Seq
			}
		}
		ends := a.Waits && res.Wait != nil
		if k == nil || k.held == nil && !ends {
			res.Code, res.Error = queue.CodeNotFound, queue.NotHeldText(&a)
			return res
		}
		r := queue.KeyRecord(queue.EventKeyReleased, name, &a)
		if ends {
			r = queue.WaitEndedRecord(&s.open[k.wait.seq].Stored, res.Wait, &a)
			k.wait = nil
		}
		s.record(r)
		if k.held != nil {
			k.held = nil
			s.holds--
		}
		s.file(name)
		return res
	})
}

// act applies an operator's action to each element of a list.
func act[T any](ctx context.Context, s *Store, list []T, one func(T) queue.ActionResult) ([]queue.ActionResult, error) {
	res := make([]queue.ActionResult, 0, len(list))
	err := s.write(ctx, func() {
		for _, x := range list {
			res = append(res, one(x))
		}
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}
