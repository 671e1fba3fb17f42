package handler

import "time"

// SetGrace makes room for a slow machine between being asked and being killed.
func (e *Exec) SetGrace(d time.Duration) { e.grace = d }
