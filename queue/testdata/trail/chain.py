#!/usr/bin/env python3
"""Recomputes the chain of chain.ndjson and compares it with chain.txt.

Shares no code with the program: it restates the formula, so that an auditor can
check a trail with nothing but Python's standard library.

    python3 chain.py            # in this folder; exit status 0 when all is well
"""
import hashlib
import json
import pathlib
import struct


def block_hash(previous: bytes, number: int, first_n: int, count: int, plain: bytes) -> bytes:
    """SHA-256(domain, previous hash, number, firstN, count, length, plain)."""
    numbers = struct.pack(">QQQQ", number, first_n, count, len(plain))
    return hashlib.sha256(b"breakwater audit block v1\n" + previous + numbers + plain).digest()


def main() -> None:
    here = pathlib.Path(__file__).parent
    lines = (here / "chain.ndjson").read_bytes().splitlines(keepends=True)
    for i, line in enumerate(lines, 1):
        assert json.loads(line)["n"] == i, f"record {i} is numbered otherwise"
    previous, done = bytes(32), 0
    for row in (here / "chain.txt").read_text().splitlines():
        number, first_n, count, want = row.split()
        number, first_n, count = int(number), int(first_n), int(count)
        assert first_n == done + 1, f"block {number} begins with record {first_n}"
        plain = b"".join(lines[done : done + count])
        previous = block_hash(previous, number, first_n, count, plain)
        assert previous.hex() == want, f"block {number}: {previous.hex()} instead of {want}"
        done += count
    assert done == len(lines), "records without a block"
    # The two short vectors that chain_test.go states as literals.
    one = block_hash(bytes(32), 1, 1, 1, b"{}\n")
    two = block_hash(one, 2, 2, 3, b"{}\n{}\n{}\n")
    print(f"{done} records, head {previous.hex()}\n1:{one.hex()}\n2:{two.hex()}")


main()
