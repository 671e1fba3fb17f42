#!/usr/bin/env python3
"""Posts exceptions to a journal in SQLite, each once.

    consumer.py JOURNAL [SOCKET]

The posting and the key by which it is known again are one row: whoever dies between the
posting and the answer is handed the exception again, and finds that it is posted. Only
the standard library is needed.
"""
import json
import queue
import signal
import socket
import sqlite3
import sys
import threading
import time

NAME, PREFETCH = "python-journal", 8


class Gone(Exception):
    """The connection is lost, or the server stops."""


class Connection:
    """An attached connection. A thread reads it, so that leases are extended at work."""

    def __init__(self, path):
        self.conn = socket.socket(socket.AF_UNIX)
        self.conn.connect(path)
        self.sending = threading.Lock()
        self.events = queue.Queue()
        self.open = {}  # leases that were delivered and are not answered
        self.send({"attach": NAME, "prefetch": PREFETCH})
        threading.Thread(target=self.read, daemon=True).start()
        first = self.events.get()
        if first is None or first["event"] != "attached":  # NAME_IN_USE, DRAINING, …
            raise Gone(first and first.get("error"))

    def send(self, *lines):
        """Sends many at once: what arrives together is settled together."""
        with self.sending:
            self.conn.sendall("".join(json.dumps(line) + "\n" for line in lines).encode())

    def read(self):
        try:
            for text in self.conn.makefile("rb"):
                event = json.loads(text)
                if event["event"] == "delivery":
                    self.open[event["lease"]] = True
                if event["event"] == "lease_ending" and event["lease"] in self.open:
                    self.send({"extend": event["lease"]})  # it is still worked on, or waits for it
                self.events.put(event)
        except OSError:
            pass
        self.events.put(None)

    def next(self, wait):
        """Returns the next event; None if there is none at the moment."""
        try:
            event = self.events.get(timeout=0.5) if wait else self.events.get_nowait()
        except queue.Empty:
            return None
        if event is None:
            raise Gone("the connection was lost")
        return event


def post(journal, delivery):
    """The work. It returns the answer."""
    exception = delivery["exception"]
    row = delivery["idempotency_key"], exception["ledger_entity"], exception["variance_amount"]  # amounts stay text
    try:
        with journal:  # one transaction
            journal.execute("insert or ignore into posted values (?, ?, ?)", row)
    except sqlite3.OperationalError as err:
        return {"retry": delivery["lease"], "reason": str(err)}
    return {"ack": delivery["lease"], "outcome": "POSTED", "by": "journal"}


def serve(connection, journal, unconfirmed):
    """Works until the connection is gone. Answers stay in unconfirmed until it is said that they count."""
    if unconfirmed:
        connection.send(*unconfirmed.values())  # their confirmation was lost
    answers = []
    while not stopping.is_set():
        event = connection.next(wait=not answers)
        if event is None and answers:
            connection.send(*answers)
            answers = []
        elif event is None:
            continue
        elif event["event"] == "delivery" and event["lease"] not in unconfirmed:
            answer = post(journal, event)
            connection.open.pop(event["lease"])
            unconfirmed[event["lease"]] = answer
            answers.append(answer)
        elif event["event"] in ("settled", "refused"):  # refused: somebody else has it, or it was settled by us before
            unconfirmed.pop(event["lease"], None)
        elif event["event"] == "error":
            sys.exit("consumer: " + event["error"])
    connection.send(*answers, {"detach": True})  # what was not begun goes back
    while True:
        connection.next(wait=True)  # until the server closes


def main():
    path = sys.argv[2] if len(sys.argv) > 2 else "/run/breakwater/consume.sock"
    journal = sqlite3.connect(sys.argv[1])
    journal.execute("create table if not exists posted (key text primary key, entity text, amount text)")
    unconfirmed, pause = {}, 0.1
    while not stopping.is_set():
        try:
            connection = Connection(path)
            pause = 0.1
            serve(connection, journal, unconfirmed)
        except (Gone, OSError) as err:
            if not stopping.is_set():
                print("consumer: connecting again:", err, file=sys.stderr)
                time.sleep(pause)
                pause = min(pause * 2, 5)


stopping = threading.Event()
if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    signal.signal(signal.SIGINT, lambda *_: stopping.set())
    main()
