#!/usr/bin/env python3
"""Write a day's close of exceptions, as a matching engine would send them.

Deterministic: the same lines on every run. Used by `make demo` and by tests.
    python3 testdata/exceptions/generate.py > testdata/exceptions/close.ndjson
"""
import json
import random
from decimal import Decimal

rng = random.Random(20261130)
UNITS = {"JPY": 0, "ISK": 0, "EUR": 2, "USD": 2, "GBP": 2, "CHF": 2, "KWD": 3, "BHD": 3, "TND": 3}
ENTITIES = [f"{c}-{b:02d}" for c in ("LDN", "FRA", "TYO", "KWI") for b in range(1, 11)]
SOURCES = ["swift-mt940", "sepa-camt053", "ledger-gl", "fx-settlement"]


def amount(currency):
    places = UNITS[currency]
    if rng.random() < 0.2:
        return str(Decimal(0).scaleb(-places))
    value = Decimal(rng.randint(1, 9_999_999)).scaleb(-places)
    return str(-value if rng.random() < 0.5 else value)


def exception(i):
    entity = rng.choice(ENTITIES)
    currency = rng.choice(list(UNITS))
    return {
        "idempotency_key": f"2026-11-30/{entity}/{i:05d}",
        "trace_id": f"{rng.getrandbits(128):032x}",
        "partition_key": entity,
        "ledger_entity": f"{entity}/nostro-{currency}",
        "match_decision": rng.choices(["UNMATCHED", "PARTIAL", "MATCHED"], [5, 4, 1])[0],
        "variance_amount": amount(currency),
        "currency": currency,
        "priority": rng.choices([1, 5, 9], [1, 8, 1])[0],
        "source": rng.choice(SOURCES),
        "value_date": "2026-11-30",
        "candidates": [f"GL{rng.randint(100000, 999999)}" for _ in range(rng.randint(0, 3))],
        "narrative": rng.choice(["Zahlung Rg. 4711 Müller & Söhne", "支払 請求書", "INV 2026/1182", "réf. client 77"]),
    }


def poison(e, kind):
    e = dict(e, idempotency_key=e["idempotency_key"] + "/" + kind)
    if kind == "digits":
        e.update(currency="JPY", variance_amount="12.50")
    elif kind == "number":
        e["variance_amount"] = 12.5
    elif kind == "currency":
        e["currency"] = "eur"
    elif kind == "decision":
        e["match_decision"] = "MAYBE"
    elif kind == "missing":
        del e["partition_key"]
    return e


def main():
    sent = []
    for i in range(1, 1101):
        e = exception(i)
        sent.append(e)
        print(json.dumps(e, ensure_ascii=False, separators=(",", ":")))
        if i % 20 == 0:  # the engine retries a line that it has sent before
            print(json.dumps(rng.choice(sent), ensure_ascii=False, separators=(",", ":")))
        if i % 220 == 0:
            kind = ["digits", "number", "currency", "decision", "missing"][i // 220 - 1]
            print(json.dumps(poison(e, kind), ensure_ascii=False, separators=(",", ":")))
        if i == 600:  # cut off on its way
            print('{"idempotency_key":"2026-11-30/LDN-01/torn","trace_id":"')
        if i == 900:  # the same key with another amount
            print(json.dumps(dict(sent[10], variance_amount="1", currency="JPY"), ensure_ascii=False, separators=(",", ":")))


main()
