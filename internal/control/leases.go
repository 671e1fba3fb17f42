package control

import (
	"slices"
	"strconv"

	"breakwater/internal/control/api"
	"breakwater/queue"
)

// leases lists who holds what, by seq, or what one owner holds.
func (s *Server) leases(x *exchange) error {
	after, limit, err := x.query.page()
	if err != nil {
		return err
	}
	owner, filtered := x.query["owner"]
	want := limit
	if filtered {
		want = api.MaxLimit
	}
	doc := api.List[api.Lease]{Items: []api.Lease{}}
	for looked := 0; len(doc.Items) < limit && looked < maxLooked; looked += want {
		step, err := s.o.Store.Leases(x.r.Context(), after, want)
		if err != nil {
			return err
		}
		for i := range step {
			if len(doc.Items) == limit {
				break // the rest is read again for the next page
			}
			after = step[i].Token.Seq
			if !filtered || step[i].Owner.Name == owner {
				doc.Items = append(doc.Items, leaseOf(&step[i]))
			}
		}
		if len(step) < want && (len(step) == 0 || after == step[len(step)-1].Token.Seq) {
			return x.ok(doc)
		}
	}
	doc.Next = strconv.FormatUint(after, 10)
	return x.ok(doc)
}

// leaseOf is a lease as the API shows it.
func leaseOf(l *queue.Lease) api.Lease {
	m := &l.Message
	row := api.Lease{
		Seq: l.Token.Seq, Fence: l.Token.Fence, Route: string(l.Route), Owner: l.Owner.Name, Kind: api.LeaseOfWorker, Delivery: l.Number,
		Since: api.Time{Time: l.Since}, Deadline: api.Time{Time: l.Deadline},
		IdempotencyKey: m.IdempotencyKey, TraceID: m.TraceID, PartitionKey: m.PartitionKey, LedgerEntity: m.LedgerEntity,
		MatchDecision: string(m.Decision), VarianceAmount: m.Amount, Currency: m.Currency, SourceHash: hashText(m.SourceHash),
	}
	if l.Owner.Kind == queue.Consumer {
		row.Kind, row.UID = api.LeaseOfConsumer, &l.Owner.UID
	}
	return row
}

// leasesOf are the leases that a body names.
func leasesOf(in *api.LeasesAct) (refs []queue.LeaseRef, err error) {
	if n := len(in.Seqs) + len(in.Leases); n == 0 || n > api.MaxLimit || len(in.Seqs) > 0 && len(in.Leases) > 0 {
		return nil, usage("either seqs or leases must list 1 to %d leased exceptions", api.MaxLimit)
	}
	if slices.Contains(in.Seqs, 0) || slices.ContainsFunc(in.Leases, func(l api.LeaseRef) bool { return l.Seq == 0 }) {
		return nil, usage("a seq is missing or 0: it is a number from 1")
	}
	for _, seq := range in.Seqs {
		refs = append(refs, queue.LeaseRef{Seq: seq, Owner: in.Owner})
	}
	for _, l := range in.Leases {
		if l.Fence == 0 {
			return nil, usage("seq %d of leases has no fence: GET /v1/leases has it", l.Seq)
		}
		refs = append(refs, queue.LeaseRef{Seq: l.Seq, Fence: l.Fence, Owner: in.Owner})
	}
	return refs, nil
}

// revoke takes leases back from consumers.
func (s *Server) revoke(x *exchange) error {
	var in api.LeasesAct
	if err := x.body(&in); err != nil {
		return err
	}
	leases, err := leasesOf(&in)
	if err != nil {
		return err
	}
	a, err := x.action(s.o.Now(), in.By, in.Reason)
	if err != nil {
		return err
	}
	if s.o.Policy == nil {
		return absent("revoke leases")
	}
	results, err := s.o.Store.Revoke(x.r.Context(), a, s.o.Policy(), leases)
	if err != nil {
		return err
	}
	doc := api.Revoked{Items: make([]api.Revocation, len(results))}
	for i, r := range results {
		doc.Items[i] = api.Revocation{Seq: r.Seq, Owner: r.Owner.Name, DeadCode: string(r.DeadCode), Code: string(r.Code), Error: r.Error}
		if r.Code != "" {
			doc.Failed++
		}
	}
	doc.Revoked = len(results) - doc.Failed
	s.tell(x, &a, "revoked", doc.Revoked, "refused", doc.Failed)
	return x.ok(doc)
}
