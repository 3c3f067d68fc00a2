#!/usr/bin/env python3
"""Messages between hosts, each to a random other one, as ./demo tactical measures them.

    messages.py host WAY SELF HOSTS GAP BEGIN SECONDS DRAIN SEED
        sends and receives on one host, from BEGIN on by the clock that /proc/uptime shows, and prints both
    messages.py scenario WAY HOSTS GAP SECONDS SEED
        the same messages as flows of a scenario
    messages.py table TITLE SECONDS RECORD LOG...
        what came of them, a line of a table: RECORD is that of `trackway air`, a LOG that of a host
    messages.py simulated TITLE SECONDS REPORT
        the same of `trackway sim run --json`

WAY is udp, a datagram for each message, or tcp, a connection for each. A message is in the log of its
sender as "sent ID SECONDS" and in that of its receiver as "got ID SECONDS".
"""

import json
import math
import random
import socket
import struct
import sys
import threading
import time

PORT = 4000
# Positions and orders, and now and then something longer.
SIZES = (128, 128, 128, 1000)
HEAD = struct.Struct("!I")


def address(host):
    return f"10.128.0.{host + 1}"


def messages(own, hosts, gap, seconds, seed):
    """When this host sends what to whom: the same for every way."""
    draw = random.Random(seed * 100 + own)
    others = [host for host in range(hosts) if host != own]
    at, number = draw.uniform(0, gap), 0
    while at < seconds:
        yield own << 16 | number, at, draw.choice(others), draw.choice(SIZES)
        at += draw.expovariate(1 / gap)
        number += 1


lock = threading.Lock()


def say(*words):
    with lock:
        print(*words, flush=True)


def take(message):
    if len(message) >= HEAD.size:
        say("got", HEAD.unpack_from(message)[0], f"{time.monotonic():.3f}")


def receive_datagrams():
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind(("", PORT))
    while True:
        take(receiver.recv(65536))


def send_datagram(message, to):
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.sendto(message, (address(to), PORT))


def receive_connections():
    server = socket.create_server(("", PORT), backlog=64)
    while True:
        connection, _ = server.accept()
        threading.Thread(target=receive_connection, args=[connection], daemon=True).start()


def receive_connection(connection):
    whole = b""
    try:
        while part := connection.recv(65536):
            whole += part
    except OSError:
        # Given up by its sender, and then it is not whole.
        return
    take(whole)
    connection.close()


def send_by_connection(message, to):
    try:
        connection = socket.create_connection((address(to), PORT))
        connection.sendall(message)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)
        connection.close()
    except OSError as error:
        say("failed", HEAD.unpack_from(message)[0], str(error).replace(" ", "-"))


WAYS = {
    "udp": (receive_datagrams, send_datagram),
    "tcp": (receive_connections, send_by_connection),
}


def host(way, own, hosts, gap, began, seconds, drain, seed):
    receive, send = WAYS[way]
    threading.Thread(target=receive, daemon=True).start()
    for number, at, to, size in messages(own, hosts, gap, seconds, seed):
        time.sleep(max(0, began + at - time.monotonic()))
        say("sent", number, f"{time.monotonic():.3f}")
        message = HEAD.pack(number).ljust(size, b".")
        threading.Thread(target=send, args=[message, to], daemon=True).start()
    time.sleep(max(0, began + seconds + drain - time.monotonic()))


def scenario(way, hosts, gap, seconds, seed):
    for own in range(hosts):
        for number, at, to, size in messages(own, hosts, gap, seconds, seed):
            ends = f'from = "h{own}"\nto = "h{to}"\nstart = "{at:.3f}s"\nport = {10_000 + own * 1_000 + (number & 0xffff)}'
            if way == "udp":
                print(f'[[udp]]\n{ends}\npayload = {size}\ncount = 1\ninterval = "1s"')
            else:
                print(f"[[tcp]]\n{ends}\noctets = {size}")


def quantile(delays, sent, share):
    """The delay that this share of all messages that were sent kept to, if so many arrived."""
    place = math.ceil(share * sent) - 1
    return f"{delays[place]:.1f} s" if 0 <= place < len(delays) else "never"


def table(title, seconds, record, *logs):
    sent, got = {}, {}
    for log in logs:
        for line in open(log):
            words = line.split()
            if words[:1] == ["sent"]:
                sent[int(words[1])] = float(words[2])
            elif words[:1] == ["got"]:
                got.setdefault(int(words[1]), float(words[2]))
    delays = sorted(got[number] - sent[number] for number in got if number in sent)
    # Frames that share a transmission have one beginning.
    on_air = {}
    for line in open(record):
        frame = json.loads(line)
        on_air.setdefault((frame["from"], frame["start_s"]), []).append(frame)
    destroyed = sum(any(it["collided"] for it in frames) for frames in on_air.values())
    keyed = sum(frames[0]["end_s"] - frames[0]["start_s"] for frames in on_air.values())
    print_result(title, delays, len(sent), len(on_air), keyed, seconds, destroyed)


def simulated(title, seconds, report):
    report = json.load(open(report))
    delays = [(flow.get("udp") or flow.get("tcp"))["delay_s"] for flow in report["flows"]]
    arrived = sorted(delay for delay in delays if delay is not None)
    stations = report["nets"][0]["stations"]
    transmissions = sum(station["transmissions"] for station in stations)
    keyed = sum(station["keyed_s"] for station in stations)
    print_result(title, arrived, len(delays), transmissions, keyed, seconds, "-")


def print_result(title, delays, sent, transmissions, keyed, seconds, destroyed):
    print_row(
        title,
        f"{len(delays)} of {sent}",
        quantile(delays, sent, 0.5),
        quantile(delays, sent, 0.9),
        str(transmissions),
        f"{100 * keyed / seconds:.0f} %",
        f"{keyed / len(delays):.1f} s" if delays else "-",
        str(destroyed),
    )


def print_row(title, *cells):
    print(f"{title:<34}" + "".join(f" {cell:>10}" for cell in cells))


def main():
    what, *rest = sys.argv[1:]
    if what == "host":
        way, own, hosts, gap, began, seconds, drain, seed = rest
        numbers = [float(it) for it in (gap, began, seconds, drain)]
        host(way, int(own), int(hosts), *numbers, int(seed))
    elif what == "scenario":
        way, hosts, gap, seconds, seed = rest
        scenario(way, int(hosts), float(gap), float(seconds), int(seed))
    elif what == "head":
        print_row("", "arrived", "median", "90 %", "sent", "air used", "a message", "collisions")
    elif what == "table":
        title, seconds, *files = rest
        table(title, float(seconds), *files)
    else:
        title, seconds, report = rest
        simulated(title, float(seconds), report)


main()
