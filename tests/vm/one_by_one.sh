#!/bin/sh
# one_by_one.sh PROGRAM [FILTER] - runs each test of a program in a process of its own, for
# programs whose tests fork: a process that has used an RDMA device cannot.
program=$1
failed=0
for name in $("$program" --gtest_list_tests --gtest_filter="${2:-*}" |
    awk '/^[^ ]/ { suite = $1 } /^ / { print suite $1 }'); do
    "$program" --gtest_filter="$name" || failed=1
done
exit $failed
