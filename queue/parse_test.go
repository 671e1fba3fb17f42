package queue

import "testing"

const goodLine = `{"idempotency_key":"recon-2026-03-31-000417","trace_id":"4bf92f3577b34da6a3ce929d0e0e4736","partition_key":"entity-0042","ledger_entity":"DE-0042-GL","match_decision":"PARTIAL","variance_amount":"-1042.37","currency":"EUR","priority":3,"booked":"2026-03-31","counterparty":{"bic":"DEUTDEFF","name":"Muster & Söhne GmbH"},"refs":["INV-88412","PO-5521"]}`

func TestParseLine(t *testing.T) {
	t.Run("a_good_line_is_read_as_sent", func(t *testing.T) {
		m, err := ParseLine([]byte(goodLine + "\r"))
		if err != nil {
			t.Fatal(err)
		}
		if string(m.Line) != goodLine {
			t.Errorf("Line = %q", m.Line)
		}
		if m.IdempotencyKey != "recon-2026-03-31-000417" || m.TraceID != "4bf92f3577b34da6a3ce929d0e0e4736" ||
			m.PartitionKey != "entity-0042" || m.LedgerEntity != "DE-0042-GL" || m.Decision != Partial ||
			m.Amount != "-1042.37" || m.Currency != "EUR" || m.Priority != 3 || m.Route != RouteReview || !m.NotBefore.IsZero() {
			t.Errorf("%+v", m)
		}
		if want := SourceHash(m.IdempotencyKey, m.LedgerEntity, "-1042.37", Partial); m.SourceHash != want {
			t.Errorf("SourceHash = %s, want %s", m.SourceHash, want)
		}
	})
}

func BenchmarkParser(b *testing.B) {
	line := []byte(goodLine)
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	var p Parser
	for b.Loop() {
		if _, err := p.Parse(line); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseLine(b *testing.B) {
	line := []byte(goodLine)
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseLine(line); err != nil {
			b.Fatal(err)
		}
	}
}
