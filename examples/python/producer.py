#!/usr/bin/env python3
"""Sends the exceptions on standard input, one JSON object per line.

    matcher | producer.py [SOCKET]

It may be run again with the same input at any time: what is stored is answered
"duplicate", and nothing is stored twice. Only the standard library is needed.
"""
import itertools
import json
import socket
import sys
import time

BATCH = 500  # lines that are sent before their receipts are read: these fit the socket's buffer


def exchange(path, lines):
    """Sends lines over a connection of their own and yields a receipt for each."""
    with socket.socket(socket.AF_UNIX) as conn:
        conn.connect(path)
        conn.sendall(b"".join(lines))
        conn.shutdown(socket.SHUT_WR)  # the server answers all, says "end", and closes
        for text in conn.makefile("rb"):
            receipt = json.loads(text)
            if receipt.get("event") == "error":  # too many connections: nothing was read
                raise ConnectionError(receipt["error"])
            if "status" in receipt:
                yield receipt


def send(path, lines):
    """Returns when every line is stored, as an exception or as a dead letter."""
    pause = 0.1
    while lines:
        again, answered = [], 0
        try:
            for receipt in exchange(path, lines):
                line, answered = lines[answered], answered + 1
                if receipt["status"] == "rejected":  # stored nowhere
                    again.append(line)
                elif receipt["status"] in ("quarantined", "conflict"):
                    print(json.dumps(receipt))  # a person looks at it
        except OSError as err:
            print("producer:", err, file=sys.stderr)
        lines = again + lines[answered:]  # without a receipt: stored or not, send it again
        pause = 0.1 if answered else min(pause * 2, 5)
        if lines:
            time.sleep(pause)


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else "/run/breakwater/enqueue.sock"
    source = (line if line.endswith(b"\n") else line + b"\n" for line in sys.stdin.buffer if line.strip())
    while batch := list(itertools.islice(source, BATCH)):
        send(path, batch)


if __name__ == "__main__":
    main()
