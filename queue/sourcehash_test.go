package queue

import (
	"strings"
	"testing"
)

func TestSourceHash(t *testing.T) {
	t.Run("the_mission's_examples_hold", func(t *testing.T) {
		for amount, prefix := range map[string]string{
			"-1042.37": "83fb75f97d73d4f5",
			"1E+3":     "bb2d231a699a695c",
			"-0.00":    "f72f8ddb5e50d53f",
		} {
			a, reason := parseAmount(amount)
			if reason != "" {
				t.Fatalf("%s %s", amount, reason)
			}
			got := SourceHash("k1", "E1", a.Canonical(), Partial).String()
			if !strings.HasPrefix(got, prefix) {
				t.Errorf("SourceHash of %s = %s, want %s…", amount, got, prefix)
			}
		}
	})
}
