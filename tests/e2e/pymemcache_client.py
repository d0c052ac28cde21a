#!/usr/bin/python3
"""A program as users of pymemcache write it: HOST PORT; prints "ok"."""

import sys

from pymemcache.client.base import Client, PooledClient


def check(what, value, expected):
    if value != expected:
        sys.exit(f"{what}: {value!r} instead of {expected!r}")


def main():
    address = (sys.argv[1], int(sys.argv[2]))
    client = Client(address, default_noreply=False)
    check("set", client.set("py:a", b"one", expire=100, flags=7), True)
    check("get", client.get("py:a"), b"one")
    check("gets", client.gets("py:a")[0], b"one")
    value, cas = client.gets("py:a")
    check("cas", client.cas("py:a", b"two", cas), True)
    check("old cas", client.cas("py:a", b"three", cas), False)
    check("cas of nothing", client.cas("py:none", b"x", b"1"), None)
    check("add", client.add("py:a", b"x"), False)
    check("replace", client.replace("py:a", b"three"), True)
    check("append", client.append("py:a", b"!"), True)
    check("prepend", client.prepend("py:a", b"!"), True)
    check("get after that", client.get("py:a"), b"!three!")
    many = {f"py:{i}": str(i).encode() * i for i in range(300)}
    check("set_many", client.set_many(many), [])
    check("get_many", client.get_many(list(many) + ["py:missing"]), many)
    check("incr", (client.set("py:n", b"10"), client.incr("py:n", 5)), (True, 15))
    check("decr", client.decr("py:n", 20), 0)
    check("touch", client.touch("py:n", 100), True)
    check("delete", client.delete("py:n"), True)
    check("delete again", client.delete("py:n"), False)
    check("noreply", client.set("py:q", b"q", noreply=True), True)
    check("get after noreply", client.get("py:q"), b"q")
    check("stats", client.stats()[b"curr_items"] >= 300, True)
    check("version", client.version(), b"1.6.18")
    pool = PooledClient(address, max_pool_size=4)
    for i in range(100):
        check("pooled", pool.get(f"py:{i}"), many[f"py:{i}"] if i else b"")
    check("flush_all", client.flush_all(), True)
    check("get after flush_all", client.get("py:a"), None)
    print("ok")


main()
