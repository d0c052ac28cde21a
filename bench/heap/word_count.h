#pragma once
// MWC: counts words by map and reduce, as Metis does.
//
// Map: each thread reads its half of the text from beginning to end and puts the place of every
// word into its own table: the table is visited at random, and grows. Reduce: the tables are read
// bucket by bucket and the lists of places are counted.
//
// The text, the entries of the tables and the lists are far; the buckets are local. An operation
// is a word mapped or a place counted.

#include "bench/heap/workload.h"

namespace yonder::bench::heap {

template <typename Memory>
Measured run_word_count(const Work& work);

}  // namespace yonder::bench::heap
