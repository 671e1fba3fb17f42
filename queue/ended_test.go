package queue

import "testing"

func TestEnded(t *testing.T) {
	var e Ended
	if got, ok := e.Find(7); ok || got.Seq != 7 {
		t.Errorf("%+v", got)
	}
	e.Add(&Stored{Seq: 7, TraceID: "t7", Line: []byte("{}")})
	e.Add(&Stored{Seq: 8, TraceID: "t8"})
	if _, ok := e.Find(0); ok {
		t.Error("a seq that is never given is known")
	}
	if got, ok := e.Find(7); !ok || got.TraceID != "t7" || got.Line != nil {
		t.Errorf("%+v", got)
	}
	e.Add(&Stored{Seq: 7 + MaxEnded, TraceID: "later"})
	if got, ok := e.Find(7); ok || got.Seq != 7 || got.TraceID != "" {
		t.Errorf("it should be forgotten: %+v", got)
	}
	before, _ := e.Find(8)
	later, _ := e.Find(7 + MaxEnded)
	if before.TraceID != "t8" || later.TraceID != "later" {
		t.Errorf("%+v, %+v", before, later)
	}
}
