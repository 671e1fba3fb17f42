package control

import (
	"context"
	"net/http"

	"breakwater/internal/control/api"
	"breakwater/queue"
)

// pause stops all claims. It is durable and says who and why.
func (s *Server) pause(x *exchange) error { return s.setPause(x, s.o.Store.Pause) }

// resume lets them go on.
func (s *Server) resume(x *exchange) error { return s.setPause(x, s.o.Store.Resume) }

func (s *Server) setPause(x *exchange, set func(context.Context, queue.Action) error) error {
	a, err := s.act(x)
	if err != nil {
		return err
	}
	if err := set(x.r.Context(), a); err != nil {
		return err
	}
	s.tell(x, &a)
	st, err := s.o.Store.Status(x.r.Context(), a.Now)
	if err != nil {
		return err
	}
	return x.ok(api.PauseState{Paused: pauseOf(st.Paused)})
}

// act reads a body that says who and why, and no more.
func (s *Server) act(x *exchange) (queue.Action, error) {
	var in api.Act
	if err := x.body(&in); err != nil {
		return queue.Action{}, err
	}
	return x.action(s.o.Now(), in.By, in.Reason)
}

// tell logs what an operator did; the trail has it already.
func (s *Server) tell(x *exchange, a *queue.Action, more ...any) {
	args := []any{"act", x.r.URL.Path, "by", a.By, "reason", a.Reason}
	if a.Peer != nil {
		args = append(args, "uid", a.Peer.UID, "pid", a.Peer.PID)
	}
	s.o.Log.Info("operator", append(args, more...)...)
}

// absent is the answer for what this process cannot do.
func absent(what string) *problem {
	return &problem{status: http.StatusNotImplemented, code: queue.CodeUsage, detail: "this process cannot " + what}
}

// drain begins the drain and answers before it is over.
func (s *Server) drain(x *exchange) error {
	a, err := s.act(x)
	if err != nil {
		return err
	}
	if s.o.Drain == nil {
		return absent("be drained by request")
	}
	s.tell(x, &a)
	s.o.Drain(a)
	return x.write(http.StatusAccepted, api.JSON, api.DrainState{Draining: true})
}

// reload takes the configuration anew, all of it or nothing.
func (s *Server) reload(x *exchange) error {
	a, err := s.act(x)
	if err != nil {
		return err
	}
	if s.o.Reload == nil {
		return absent("reload its configuration")
	}
	r, err := s.o.Reload(x.r.Context(), a)
	if err != nil {
		return err
	}
	s.tell(x, &a, "refused", len(r.Refused))
	if len(r.Refused) > 0 {
		return &problem{status: http.StatusUnprocessableEntity, code: queue.CodeUsage,
			detail:  "the configuration was refused; the one before stays in force",
			reasons: r.Refused, hint: r.Hint}
	}
	return x.ok(api.ReloadState{Reloaded: true, File: r.File, Changed: append([]string{}, r.Changed...)})
}

// holdKeys makes keys wait.
func (s *Server) holdKeys(x *exchange) error {
	var in api.KeysAct
	if err := x.body(&in); err != nil {
		return err
	}
	if in.Waits {
		return usage("waits is for a release")
	}
	return s.keys(x, &in, s.o.Store.HoldKeys)
}

// releaseKeys undoes that, and nothing else unless the body says so.
func (s *Server) releaseKeys(x *exchange) error {
	var in api.KeysAct
	if err := x.body(&in); err != nil {
		return err
	}
	return s.keys(x, &in, s.o.Store.ReleaseKeys)
}

type keysVerb func(context.Context, queue.Action, []string) ([]queue.ActionResult, error)

func (s *Server) keys(x *exchange, in *api.KeysAct, verb keysVerb) error {
	if len(in.Keys) == 0 || len(in.Keys) > api.MaxLimit {
		return usage("keys must list 1 to %d partition keys", api.MaxLimit)
	}
	for i, key := range in.Keys {
		if len(key) == 0 || len(key) > queue.MaxPartitionKey {
			return usage("key %d of the list has %d bytes; it must have 1 to %d", i+1, len(key), queue.MaxPartitionKey)
		}
	}
	a, err := x.action(s.o.Now(), in.By, in.Reason)
	if err != nil {
		return err
	}
	a.Waits = in.Waits
	results, err := verb(x.r.Context(), a, in.Keys)
	if err != nil {
		return err
	}
	doc := api.Keys{}
	doc.Items, doc.Failed = resultsOf(results)
	doc.Matched = len(results) - doc.Failed
	s.tell(x, &a, "keys", doc.Matched, "waits", a.Waits)
	return x.ok(doc)
}
