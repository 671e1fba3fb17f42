package app

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"breakwater/queue"
)

func TestAlive_is_a_store_without_room_and_not_one_that_failed(t *testing.T) {
	other := errors.New("no answer")
	for _, c := range []struct{ met, want error }{
		{nil, nil},
		{fmt.Errorf("probe: %w", queue.ErrNoRoom), nil},
		{other, other},
		{queue.ErrFailed, queue.ErrFailed},
	} {
		got := alive(func(context.Context) error { return c.met })(context.Background())
		if !errors.Is(got, c.want) {
			t.Errorf("a probe that met %v: %v", c.met, got)
		}
	}
}
