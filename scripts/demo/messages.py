#!/usr/bin/env python3
"""Messages between hosts, each to a random other one, as ./demo tactical measures them.

    messages.py host WAY SELF HOSTS GAP BEGIN SECONDS DRAIN SEED
        sends and receives on one host, from BEGIN on by the clock that /proc/uptime shows, and prints both
    messages.py table TITLE SECONDS RECORD LOG...
        what came of them, a line of a table: RECORD is that of `trackway air`, a LOG that of a host
    messages.py simulated TITLE SECONDS REPORT
        the same of `trackway sim run --json`, the mean for the median

WAY is udp, a datagram for each message, tcp, a connection for each, or sar: by `trackway send` and `trackway receive`,
of which $TRACKWAY is the program and $TRACKWAY_SOCKET the gateway's socket. A message is in the log of its
sender as "sent ID SECONDS" and in that of its receiver as "got ID SECONDS".
"""

import json
import math
import os
import random
import socket
import struct
import subprocess
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


def trackway(*words):
    return [os.environ["TRACKWAY"], *words, "--socket", os.environ["TRACKWAY_SOCKET"]]


def receive_by_gateway():
    command = trackway("receive", str(PORT), "--follow", "--json")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as receiver:
        for line in receiver.stdout:
            take(bytes.fromhex(json.loads(line)["hex"]))


def send_by_gateway(message, to):
    command = trackway("send", "-", address(to), "--port", str(PORT))
    sent = subprocess.run(command, input=message, capture_output=True)
    if sent.returncode:
        say("failed", HEAD.unpack_from(message)[0], sent.stdout.decode(), sent.stderr.decode())


WAYS = {
    "sar": (receive_by_gateway, send_by_gateway),
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
    transmissions = {}
    for line in open(record):
        frame = json.loads(line)
        transmissions.setdefault((frame["from"], frame["start_s"]), []).append(frame)
    destroyed = sum(any(frame["collided"] for frame in it) for it in transmissions.values())
    keyed = sum(it[0]["end_s"] - it[0]["start_s"] for it in transmissions.values())
    print_row(
        title,
        f"{len(delays)} of {len(sent)}",
        quantile(delays, len(sent), 0.5),
        quantile(delays, len(sent), 0.9),
        *on_air(len(delays), len(transmissions), keyed, seconds),
        str(destroyed),
    )


def simulated(title, seconds, report):
    report = json.load(open(report))
    messages, stations = report["messages"], report["nets"][0]["stations"]
    transmissions = sum(station["transmissions"] for station in stations)
    keyed = sum(station["keyed_s"] for station in stations)
    mean, most = messages["delay_s"], messages["delay_90_s"]
    print_row(
        title,
        f"{messages['received']} of {messages['expected']}",
        "never" if mean is None else f"mean {mean:.1f} s",
        "never" if most is None else f"{most:.1f} s",
        *on_air(messages["received"], transmissions, keyed, seconds),
        "-",
    )


def on_air(arrived, transmissions, keyed, seconds):
    """How much was on the air for these messages."""
    each = f"{keyed / arrived:.1f} s" if arrived else "-"
    return str(transmissions), f"{100 * keyed / seconds:.0f} %", each


def print_row(title, *cells):
    print(f"{title:<28}" + "".join(f" {cell:>12}" for cell in cells))


def main():
    what, *rest = sys.argv[1:]
    if what == "host":
        way, own, hosts, gap, began, seconds, drain, seed = rest
        numbers = [float(it) for it in (gap, began, seconds, drain)]
        host(way, int(own), int(hosts), *numbers, int(seed))
    elif what == "head":
        print_row("", "arrived", "median", "90 %", "sent", "air used", "a message", "collisions")
    elif what == "table":
        title, seconds, *files = rest
        table(title, float(seconds), *files)
    else:
        title, seconds, report = rest
        simulated(title, float(seconds), report)


main()
