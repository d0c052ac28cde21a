#!/usr/bin/env bash
# lost_peers.sh PEER kill|cut - in the guest: a peer is killed, or its line cut,
# in the middle of reads. The reader must get a typed error in time and go on
# when the peer is back; a killed reader must leave nothing at the target.
#   kill   one host (rdma-vm)
#   cut    two hosts (rdma-vm --hosts 2)
set -euo pipefail
peer=$1
mode=$2
work=$(mktemp -d) # What the processes print; their inputs are pipes beside it.
pids=()
trap 'kill -9 "${pids[@]}" 2>/dev/null || true; rm -rf "$work" "$work".*' EXIT

fail() {
    echo "lost_peers: $*" >&2
    tail -n 20 "$work"/* >&2 || true
    exit 1
}

# await FILE PATTERN: the first line that matches, within 85 s (yonder/testing/patience.h).
await() {
    local n
    for ((n = 0; n < 1700; n++)); do
        if grep -m1 "$2" "$1" 2>/dev/null; then return; fi
        sleep 0.05
    done
    fail "no \"$2\" in ${1##*/}"
}

# Replaces the (sub)shell, so that its process id is the program's.
on() { if [ "$mode" = cut ]; then exec ip netns exec "$@"; else shift; exec "$@"; fi; }

# serve NAME: a target whose input stays open until we end.
serve() {
    mkfifo "$work.$1"
    on h1 "$peer" serve verbs://10.77.0.1:7400 <"$work.$1" >"$work/$1" 2>&1 &
    served=$!
    pids+=("$served")
    # shellcheck disable=SC2034
    exec {keep}>"$work.$1"
    await "$work/$1" ADDRESS >/dev/null
}

# hammer NAME MS
hammer() {
    on h2 "$peer" hammer verbs://10.77.0.1:7400 "$2" >"$work/$1" 2>&1 &
    hammering=$!
    pids+=("$hammering")
    await "$work/$1" READY >/dev/null
}

# check_failure NAME MS: a typed error, at most MS after the last success.
check_failure() {
    local line word code ms
    line=$(await "$work/$1" FAILED)
    read -r word code ms <<<"$line"
    echo "lost_peers: $mode: $word $code after $ms ms"
    case $code in ConnectionLost | DeadlineExceeded) ;; *) fail "wrong code $code" ;; esac
    if [ "$ms" -gt "$2" ]; then fail "too late: $ms ms"; fi
}

serve first
hammer reader 2000
if [ "$mode" = kill ]; then
    kill -9 "$served"
    check_failure reader 4000
    serve second
    await "$work/reader" RECOVERED >/dev/null
    hammer victim 2000
    await "$work/second" "CONNECTIONS 1" >/dev/null
    kill -9 "$hammering"
    await "$work/second" "CONNECTIONS 0" >/dev/null
else
    # A line that loses everything, then one that is back.
    tc qdisc add dev b1 root netem loss 100%
    check_failure reader 4000
    tc qdisc del dev b1 root
    await "$work/reader" RECOVERED >/dev/null
    # A cable without light. Soft-RoCE's own management queue pair does not
    # survive what is sent meanwhile, so nobody can reconnect after this.
    hammer other 2000
    ip link set b2 down
    check_failure other 4000
fi
echo "lost_peers: $mode: passed"
