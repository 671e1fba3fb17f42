package queue

import "breakwater/partition"

// SlotSet is a set of partition slots; see package partition.
type SlotSet = partition.SlotSet

// RouteSet is a set of routes.
type RouteSet uint8

// RouteIndex returns the position of r in Routes, or -1.
func RouteIndex(r Route) int {
	for i, known := range Routes {
		if known == r {
			return i
		}
	}
	return -1
}

// RoutesOf returns the set of the given routes; unknown ones are left out.
func RoutesOf(routes ...Route) RouteSet {
	var s RouteSet
	for _, r := range routes {
		if i := RouteIndex(r); i >= 0 {
			s |= 1 << i
		}
	}
	return s
}

// Has reports whether the set holds r.
func (s RouteSet) Has(r Route) bool {
	i := RouteIndex(r)
	return i >= 0 && s&(1<<i) != 0
}
