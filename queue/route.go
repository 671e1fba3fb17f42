package queue

// RouteFor returns the route of a message that came without one: AUTO_RESOLVE
// where the amount, quantised to its minor unit, is zero, ROUTE_REVIEW for all
// else. There is no rounding here: the monetary gate has refused every digit
// that rounding could touch, so an amount that rounds to zero is zero.
//
// A route that upstream sent is kept as it is; nobody asks this function then.
func RouteFor(a Amount) Route {
	if a.IsZero() {
		return AutoResolve
	}
	return RouteReview
}
