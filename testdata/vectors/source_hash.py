#!/usr/bin/env python3
"""Writes source_hash.ndjson: golden vectors of source_hash, made with Python's
own decimal module, so that they owe nothing to the code they check.

    python3 source_hash.py > source_hash.ndjson

Each line has the four parts of the hash as a sender writes them, the canonical
form of the amount, which is str(Decimal(amount)), and the hash.
"""
import hashlib
import json
import random
from decimal import Decimal

DECISIONS = ["MATCHED", "PARTIAL", "UNMATCHED"]

# What a rule turns on, by hand: signs of zero, leading zeros, a plus sign, the
# change to exponent form at exponent > 0 and at adjusted exponent < -6, the
# limits of 38 digits and of an exponent of 38.
BY_HAND = """
0 -0 +0 00 -00 0.0 -0.0 0.00 -0.00 +0.00 000.000 0e0 0E0 -0e0 0e1 0E+3 -0E+3
0e-1 0e-5 0e-6 0e-7 0e-8 -0e-7 0.0e-5 0.00e-5 0.000e3 0.00e3 0.00e2 0e38 0e-38 -0E-38 0.0e38
1 -1 +1 01 001 -001 +001 10 100 1000 1.0 1.00 01.00 10.0 10.00 010.00 +10 +10.00
1e0 1E0 1e+0 1e-0 1e00 1e1 1E1 1e+1 1e01 1e001 1E+3 1e3 -1e3 1e-1 1e-2 1e-3 1e-4 1e-5 1e-6 1e-7 1e-8
-1e-6 -1e-7 10e-7 10e-8 100e-8 100e-9 1.0e-5 1.0e-6 1.0e-7 1.00e-5 1.23e-4 1.23e-5 1.23e-6 1.23e-7
0.1 0.01 0.001 0.0001 0.00001 0.000001 0.0000001 0.00000001 -0.000001 -0.0000001
0.10 0.100 0.0000010 0.00000010 0.0000100 00.10 +00.10
1.0e1 1.0e2 1.00e1 1.00e2 1.00e3 1.5e1 1.5e2 1.50e1 1.50e2 12.34e1 12.34e2 12.34e3 12.34e-1 12.34e-5 12.34e-7
12.34e-8 12.34e-9 120e1 120e-1 120e-2 120e-3 1200e-4 -1042.37 1042.37 +1042.37 -01042.370 104237e-2 -104237E-2
1.04237e3 0.104237e+4 0.5 -0.5 2.5 -2.5 0.005 0.015 -0.005 1.005 99.995 0.995
12345678901234567890123456789012345678 -12345678901234567890123456789012345678
0.1234567890123456789012345678901234567 1.2345678901234567890123456789012345678
99999999999999999999999999999999999999 00000000000000000000000000000000000001
10000000000000000000000000000000000000 0.0000000000000000000000000000000000001
1234567890123456789012345678901234567.8 -1234567890123456789012345678901234567.8
1e38 1e-38 -1e38 9e38 9E-38 1.5e38 1.5e-38 12345678901234567890123456789012345678e38
12345678901234567890123456789012345678e-38 0.1234567890123456789012345678901234567e38
0.1234567890123456789012345678901234567e-38 0.0000000000000000000000000000000000000e38
0.0000000000000000000000000000000000000e-38 1e038 1e+038 1e-038 123456789e-37
""".split()

KEYS = [
    ("k1", "E1"),
    ("k:1", "E:1"),
    ("Schlüssel-1", "Zürich/7"),
    ("鍵", "元帳"),
    ("k\u0000\u001f\u007f\n\t", "E\r\n"),
    ("k\u202eevil", "E\u200f"),
    ("\U0001f512", "\ufeffE"),
    (" k ", " "),
    ("k" * 256, "E" * 256),
]


def random_amount(rng):
    digits = rng.choice([1, 2, 3, 5, 8, 13, 21, 34, 38])
    text = "".join(rng.choice("0000123456789") for _ in range(digits))
    point = rng.randint(1, digits)
    if point < digits:
        text = text[:point] + "." + text[point:]
    if rng.random() < 0.5:
        text += rng.choice("eE") + rng.choice(["", "+", "-"]) + str(rng.randint(0, 38))
    return rng.choice(["", "", "-", "+"]) + text


def vector(amount, key, entity, decision):
    canonical = str(Decimal(amount))
    material = f"{key}:{entity}:{canonical}:{decision}"
    return {
        "idempotency_key": key,
        "ledger_entity": entity,
        "match_decision": decision,
        "variance_amount": amount,
        "canonical": canonical,
        "source_hash": hashlib.sha256(material.encode("utf-8")).hexdigest(),
    }


def main():
    rng = random.Random(4217)
    vectors = [vector(a, "k1", "E1", "PARTIAL") for a in BY_HAND]
    vectors += [vector("-1042.37", k, e, d) for k, e in KEYS for d in DECISIONS]
    for _ in range(400):
        key, entity = rng.choice(KEYS[:4])
        vectors.append(vector(random_amount(rng), key, entity, rng.choice(DECISIONS)))
    for v in vectors:
        print(json.dumps(v))


main()
