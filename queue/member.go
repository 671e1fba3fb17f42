package queue

import "github.com/go-json-experiment/json/jsontext"

// member numbers the members of a line that have a meaning here, in the order
// in which the gates look at them. Every other member is the sender's.
type member uint8

const (
	memberIdempotencyKey member = iota
	memberTraceID
	memberPartitionKey
	memberLedgerEntity
	memberDecision
	memberPriority
	memberRoute
	memberNotBefore
	memberAmount
	memberCurrency
	members // how many there are; as a member: not one of them
)

// name returns the member's name in the line.
func (m member) name() string {
	return [members]string{
		memberIdempotencyKey: "idempotency_key",
		memberTraceID:        "trace_id",
		memberPartitionKey:   "partition_key",
		memberLedgerEntity:   "ledger_entity",
		memberDecision:       "match_decision",
		memberPriority:       "priority",
		memberRoute:          "route",
		memberNotBefore:      "not_before",
		memberAmount:         "variance_amount",
		memberCurrency:       "currency",
	}[m]
}

// memberNamed returns the member of that exact name, or members for one that is
// the sender's. Case counts: "Priority" is nobody's but the sender's.
func memberNamed(name []byte) member {
	switch string(name) {
	case "idempotency_key":
		return memberIdempotencyKey
	case "trace_id":
		return memberTraceID
	case "partition_key":
		return memberPartitionKey
	case "ledger_entity":
		return memberLedgerEntity
	case "match_decision":
		return memberDecision
	case "priority":
		return memberPriority
	case "route":
		return memberRoute
	case "not_before":
		return memberNotBefore
	case "variance_amount":
		return memberAmount
	case "currency":
		return memberCurrency
	}
	return members
}

// maxWord bounds the members that hold a word, a number or a date. No good
// value comes near it but an amount, whose grammar gives the figure.
const maxWord = MaxAmountBytes

// limit returns how many bytes the member may have after decoding.
func (m member) limit() int {
	switch m {
	case memberIdempotencyKey:
		return MaxIdempotencyKey
	case memberTraceID:
		return MaxTraceID
	case memberPartitionKey:
		return MaxPartitionKey
	case memberLedgerEntity:
		return MaxLedgerEntity
	}
	return maxWord
}

// kind is the kind of a JSON value, as the decoder numbers them: by its first byte.
type kind = jsontext.Kind

const (
	kindAbsent = jsontext.KindInvalid
	kindString = jsontext.KindString
	kindNumber = jsontext.KindNumber
)

// kindName names a kind of JSON value with its article.
func kindName(k kind) string {
	switch k {
	case jsontext.KindNull:
		return "null"
	case jsontext.KindFalse, jsontext.KindTrue:
		return "a boolean"
	case jsontext.KindString:
		return "a string"
	case jsontext.KindNumber:
		return "a number"
	case jsontext.KindBeginObject:
		return "an object"
	case jsontext.KindBeginArray:
		return "an array"
	}
	return "nothing"
}
