package dispatch

import (
	"breakwater/queue"
	"fmt"
	"testing"
)

var stat = map[string]int{}

func TestZZ(t *testing.T) { fmt.Println(stat) }
func count(all []queue.Record) {
	for _, r := range all {
		k := string(r.Event)
		if r.Worker != "" && r.Worker[:1] != "w" {
			k = "c:" + k
		}
		stat[k]++
	}
}
