#pragma once
// WS: a web service. A request looks 32 keys up in a hash table, adds up what it finds, takes the
// array element of 8 KiB that this names, compresses it and encrypts it (AES-128-CTR).
//
// The table's entries are small (32 bytes) and in chains of four on average: pointer chasing; the
// element is two pages: sequential. Keys are skewed (Zipf, theta 0.8), elements with them. As in
// the paper the table has 10 of 26 parts of the memory and the array the rest.
//
// Entries and elements are far; the beginnings of the chains are local. An operation is a request.

#include "bench/heap/workload.h"

namespace yonder::bench::heap {

template <typename Memory>
Measured run_web_service(const Work& work);

}  // namespace yonder::bench::heap
