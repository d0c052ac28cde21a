#pragma once
// MPVC: counts the views of pages in a server's log by map and reduce, as Metis does.
//
// Map: each thread reads its half of the log from beginning to end and adds every view to the
// page's entry in its own table; unlike words, pages have titles and no lists, and few are very
// hot. Reduce: the entries are read bucket by bucket, those of the threads are put together, and
// the totals are written one after the other.
//
// The log, the entries and the totals are far; the buckets are local. An operation is a view
// mapped or an entry reduced.

#include "bench/heap/workload.h"

namespace yonder::bench::heap {

template <typename Memory>
Measured run_page_views(const Work& work);

}  // namespace yonder::bench::heap
