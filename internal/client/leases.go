package client

import (
	"context"
	"iter"
	"net/url"

	"breakwater/internal/control/api"
)

// Leases lists what is leased, by seq; owner, if not "", selects what that one holds.
func (c *Control) Leases(ctx context.Context, owner string) iter.Seq2[api.Lease, error] {
	q := url.Values{}
	set(q, "owner", owner)
	return pages[api.Lease](ctx, c, "/v1/leases", q)
}

// Revoke takes leases back from consumers, at most api.MaxLimit at a time.
func (c *Control) Revoke(ctx context.Context, a api.LeasesAct) (r api.Revoked, err error) {
	return r, c.post(ctx, "/v1/leases/revoke", a, &r)
}
