package control

import (
	"strings"

	"breakwater/internal/control/api"
	"breakwater/queue"
)

// keySteps is how many keys are read at a time: each step is a turn of the store.
const keySteps = 200

// keyStates are the states of a key as a query spells them.
func keyStates() string {
	var names []string
	for _, s := range queue.KeyStates {
		names = append(names, s.String())
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// listKeys lists partition keys, those that a person has to look at first, each with
// what keeps it: who works on which route is asked once, the trail not at all.
func (s *Server) listKeys(x *exchange) error {
	limit, err := x.query.number("limit", 1, api.MaxLimit, defaultLimit)
	if err != nil {
		return err
	}
	q := queue.KeyQuery{Now: s.o.Now(), After: x.query["after"]}
	if text, ok := x.query["state"]; ok {
		if q.State, ok = queue.ParseKeyState(text); !ok {
			return usage("state must be %s", keyStates())
		}
	}
	doc := api.List[api.Key]{Items: []api.Key{}}
	circumstances := s.circumstances(q.Now)
	for steps := 0; steps < int(limit)/keySteps+1 && len(doc.Items) < int(limit); steps++ {
		q.Limit = min(keySteps, int(limit)-len(doc.Items))
		page, err := s.o.Store.Keys(x.r.Context(), q)
		if err != nil {
			return err
		}
		for i := range page.Keys {
			row := keyOf(&page.Keys[i])
			for _, cause := range page.Causes(&page.Keys[i], circumstances) {
				row.WaitsFor = append(row.WaitsFor, causeOf(&cause, q.Now))
			}
			doc.Items = append(doc.Items, row)
		}
		if q.After, doc.Next = page.Next, page.Next; page.Next == "" {
			break
		}
	}
	return x.ok(doc)
}

// keyOf is a partition key as the API shows it.
func keyOf(k *queue.Key) api.Key {
	row := api.Key{
		Key: k.Name, State: k.State.String(), Seq: k.First, Open: k.Open, Leased: k.Leased, Amounts: []api.Amount{},
		AcceptedAt: api.Time{Time: k.AcceptedAt}, Route: string(k.Route), Damaged: k.Damage,
	}
	if k.First != 0 {
		row.Priority = &k.Priority
	}
	for _, a := range k.Worth {
		row.Amounts = append(row.Amounts, api.Amount{Currency: a.Currency, Amount: a.Sum})
	}
	if l := k.Letter; l != nil {
		row.Code = string(l.Code)
		row.Letter = &api.KeyLetter{Seq: l.Seq, Count: l.Count, Code: string(l.Code), Reason: l.Reason, DeadAt: api.Time{Time: l.DeadAt}}
	}
	if h := k.Hold; h != nil {
		row.Hold = &api.KeyHold{By: h.By, Reason: h.Reason, Since: api.Time{Time: h.Since}}
	}
	row.Wait = waitOf(k.Wait)
	if h := k.Holder; h != nil {
		row.Holder = &api.KeyHolder{Owner: h.Owner.Name, Kind: kindOf(h.Owner.Kind == queue.Consumer), Seq: h.Seq, Deadline: api.Time{Time: h.Deadline}}
		if h.Owner.Kind == queue.Consumer {
			row.Holder.UID = &h.Owner.UID
		}
	}
	if a := k.Aside; a != nil {
		row.Aside = &api.KeyAside{Owner: a.Owner.Name, Until: api.Time{Time: a.Until}}
	}
	return row
}

// waitOf is a time that a key waits for as the API shows it; nil for none.
func waitOf(w *queue.KeyWait) *api.KeyWait {
	if w == nil {
		return nil
	}
	return &api.KeyWait{Seq: w.Seq, Until: api.Time{Time: w.Until}, Retry: w.Retry, Failed: w.Failed}
}

func kindOf(consumer bool) string {
	if consumer {
		return api.LeaseOfConsumer
	}
	return api.LeaseOfWorker
}
