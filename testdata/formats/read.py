#!/usr/bin/env python3
"""Audits the trail of a breakwater store without breakwater.

    python3 read.py STORE.db                       of a copy that nobody writes to
    python3 read.py STORE.db --records             prints its records, too, one a line
    python3 read.py STORE.db --witness 17:9f2c...  finds a head that somebody was shown
    python3 read.py STORE.db --checkpoint FILE     finds the heads that were signed

Recomputes the chain of hashes over every record from the bytes of the file, and the
source_hash of every record that names what it is made of. Exit status 0: all of it is so;
else it says what is not. It follows docs/format.md and shares no code with the program. It
needs Python 3, the program zstd, and beside itself (or in ../../queue) trail_v1.dict, a
part of the format. It does not check the signatures of checkpoints: docs/format.md does.
"""
import argparse, base64, decimal, hashlib, json, pathlib, struct, subprocess, sys


def fail(what):
    sys.exit("NOT SOUND: " + what)


def meta_page(data, at):
    """Returns (transaction, page size, page of the root) if there is a sound meta page."""
    m, fnv = data[at + 16 : at + 80], 0xCBF29CE484222325
    for byte in m[:56]:  # FNV-64a
        fnv = (fnv ^ byte) * 0x100000001B3 % 2**64
    if len(m) == 64 and m[:8] == struct.pack("<II", 0xED0CDAED, 2) and fnv == struct.unpack_from("<Q", m, 56)[0]:
        return struct.unpack_from("<Q", m, 48) + struct.unpack_from("<I4xQ", m, 8)


def pairs(data, size, at):
    """Yields the keys and values of the tree below the page at an offset."""
    flags, count = struct.unpack_from("<HH", data, at + 8)
    for e in range(at + 16, at + 16 + 16 * count, 16):
        if flags & 1:  # a branch
            yield from pairs(data, size, size * struct.unpack_from("<8xQ", data, e)[0])
        else:
            at_key, key, value = struct.unpack_from("<4xIII", data, e)
            yield data[e + at_key :][:key], data[e + at_key + key :][:value]


def open_buckets(path):
    """Returns a function that yields the keys and values of a bucket of a bbolt file."""
    data = memoryview(pathlib.Path(path).read_bytes())
    metas = [m for m in (meta_page(data, at) for at in [0] + [1 << i for i in range(9, 17)]) if m]
    if not metas:
        fail("it is no bbolt file")
    _, size, root = max(metas)
    buckets = {bytes(name): head for name, head in pairs(data, size, size * root)}

    def bucket(name):
        root = struct.unpack_from("<Q", buckets[name])[0]  # 0: it is small, and lies in its value
        return pairs(data, size, size * root) if root else pairs(buckets[name][16:], size, 0)

    return bucket


def blocks(audit, dictionary):
    """Yields number, first record, count, hash and plain bytes of each block of the trail."""
    stored = [(int.from_bytes(key, "big"), *struct.unpack_from(">BBQII32s", v), v[50:-4]) for key, v in audit]
    for batch in (stored[i : i + 1000] for i in range(0, len(stored), 1000)):  # one zstd for many
        frames, at = b"".join(b[-1] for b in batch if b[2] == 1), 0
        zstd = subprocess.run(["zstd", "-dcq", "-D", dictionary], input=frames, stdout=subprocess.PIPE) if frames else None
        if zstd and zstd.returncode:
            fail(f"among the blocks {batch[0][0]} to {batch[-1][0]} is one that zstd cannot unpack")
        for number, form, codec, first, count, length, stored_hash, payload in batch:
            if form != 1 or codec > 1:
                fail(f"block {number} is of format {form}, codec {codec}")
            if codec == 1:
                payload, at = zstd.stdout[at : at + length], at + length
            yield number, first, count, stored_hash, bytes(payload)


def source_hash(r):
    parts = r["idempotency_key"], r["ledger_entity"], str(decimal.Decimal(r["variance_amount"])), r["match_decision"]
    return hashlib.sha256(":".join(parts).encode()).hexdigest()


def signed(path, origin):
    """Yields the number of records and the hash of each checkpoint of this store."""
    for text in pathlib.Path(path).read_text().split(origin + "\n")[1:]:
        size, root = text.split("\n")[:2]
        yield int(size), base64.b64decode(root)


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("store")
    args.add_argument("--records", action="store_true")
    args.add_argument("--witness", action="append", default=[])
    args.add_argument("--checkpoint")
    o = args.parse_args()
    here = pathlib.Path(__file__).resolve().parent
    dictionary = next(p for p in (here / "trail_v1.dict", here / "../../queue/trail_v1.dict") if p.exists())
    bucket = open_buckets(o.store)
    meta = {bytes(name): value for name, value in bucket(b"meta")}
    if meta[b"format"] != b"\0\0\0\1":
        fail("its format is another than 1")
    number, head, n = struct.unpack_from(">Q32sQ", meta.get(b"opening", bytes(53)), 5)  # of what was trimmed
    heads, ends, first_n, recomputed = {number: head}, {n: head}, n + 1, 0
    for key, first, count, stored, plain in blocks(bucket(b"audit"), dictionary):
        numbers = struct.pack(">QQQQ", number + 1, n + 1, plain.count(b"\n"), len(plain))
        head = hashlib.sha256(b"breakwater audit block v1\n" + head + numbers + plain).digest()
        if (key, first, count, stored) != (number + 1, n + 1, plain.count(b"\n"), head):
            fail(f"block {key} does not follow from the one before it")
        for line in plain.splitlines():
            n, r = n + 1, json.loads(line)
            if r["n"] != n:
                fail(f"record {n} has another number")
            if {"source_hash", "idempotency_key", "ledger_entity", "variance_amount", "match_decision"} <= r.keys():
                recomputed += 1
                if source_hash(r) != r["source_hash"]:
                    fail(f"record {n}: its source_hash is not that of its members")
        number, heads[key], ends[n] = key, head, head
        if o.records:
            sys.stdout.buffer.write(plain)
    if meta[b"counters"][33:81] != struct.pack(">Q32sQ", number, head, n):
        fail(f"the trail ends at {number}:{head.hex()}, record {n}, and bucket meta says something else")
    for witness in o.witness:
        if witness not in (f"{block}:{head.hex()}" for block, head in heads.items()):
            fail(f"the head {witness} is not in the chain")
    origin = "breakwater/" + meta[b"id"].hex()
    notes = list(signed(o.checkpoint, origin)) if o.checkpoint else []
    for size, root in notes:
        if size >= first_n - 1 and ends.get(size) != root:
            fail(f"the checkpoint of record {size} is not of this chain")
    found = len(o.witness) + sum(size in ends for size, _ in notes)
    print(f"{origin}: records {first_n} to {n} are one chain, its head is {number}:{head.hex()}; "
          f"{recomputed} source hashes are right, {found} of {len(o.witness) + len(notes)} heads are found", file=sys.stderr)


main()
