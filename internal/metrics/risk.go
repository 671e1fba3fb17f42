package metrics

import (
	"math/big"

	"github.com/prometheus/client_golang/prometheus"

	"breakwater/queue"
)

// riskFamilies show how much money waits, for how long, and where.
type riskFamilies struct {
	blocked, holds, amount, ages, dead family
}

func newRiskFamilies() riskFamilies {
	return riskFamilies{
		blocked: familyOf(blockedKeys), holds: familyOf(operatorHolds),
		amount: familyOf(amountAtRisk), ages: familyOf(ages), dead: familyOf(deadByCode),
	}
}

// all lists the families.
func (f *riskFamilies) all() []family {
	return []family{f.blocked, f.holds, f.amount, f.ages, f.dead}
}

// emit sends what a status says. A currency has series while something is at risk in
// it: there are never more than ISO 4217 has codes.
func (f *riskFamilies) emit(ch chan<- prometheus.Metric, st *queue.StoreStatus) {
	f.blocked.emit(ch, float64(st.BlockedKeys))
	f.holds.emit(ch, float64(st.OperatorHolds))
	for i := range st.AtRisk {
		r := &st.AtRisk[i]
		f.amount.emit(ch, sample(r.Open), "open", r.Currency)
		f.amount.emit(ch, sample(r.Held), "held", r.Currency)
		f.amount.emit(ch, sample(r.Dead), "dead", r.Currency)
	}
	for state, a := range map[string]*queue.Ages{"open": &st.OpenAges, "dead": &st.DeadAges} {
		f.ages.emit(ch, float64(a.Under24h), state, "under_24h")
		f.ages.emit(ch, float64(a.To3d), state, "1d_to_3d")
		f.ages.emit(ch, float64(a.To7d), state, "3d_to_7d")
		f.ages.emit(ch, float64(a.Over7d), state, "over_7d")
	}
	for _, code := range deadCodes {
		f.dead.emit(ch, float64(st.DeadByCode[code]), string(code))
	}
}

// deadCodes are what makes dead letters.
var deadCodes = []queue.Code{
	queue.CodePoison, queue.CodeConflict, queue.CodeRejected, queue.CodeAttemptsExhausted, queue.CodeDeliveriesExhausted,
}

// sample is the float that is nearest to a decimal. It is the one place where an
// amount becomes one: Prometheus has no other samples. Nothing is computed with it.
func sample(decimal string) float64 {
	exact, ok := new(big.Rat).SetString(decimal)
	if !ok {
		return 0 // cannot be: the status has decimals
	}
	nearest, _ := exact.Float64()
	return nearest
}
