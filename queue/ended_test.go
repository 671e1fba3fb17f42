package queue

import "testing"

func TestEnded(t *testing.T) {
	var e Ended
	if got := e.Find(7); got.Seq != 7 || got.TraceID != "" {
		t.Errorf("%+v", got)
	}
	e.Add(&Stored{Seq: 7, TraceID: "t7", Line: []byte("{}")})
	e.Add(&Stored{Seq: 8, TraceID: "t8"})
	if got := e.Find(7); got.TraceID != "t7" || got.Line != nil {
		t.Errorf("%+v", got)
	}
	e.Add(&Stored{Seq: 7 + MaxEnded, TraceID: "later"})
	if got := e.Find(7); got.Seq != 7 || got.TraceID != "" {
		t.Errorf("it should be forgotten: %+v", got)
	}
	if got := e.Find(8).TraceID + e.Find(7+MaxEnded).TraceID; got != "t8later" {
		t.Errorf("%s", got)
	}
}
