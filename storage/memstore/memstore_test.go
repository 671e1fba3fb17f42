package memstore

import "breakwater/queue"

var _ queue.Store = (*Store)(nil)
