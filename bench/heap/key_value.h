#pragma once
// MCD-CL and MCD-U: a cache of keys and values under gets (87.4 %) and sets.
//
// As in memcached, an item is one block of memory with its key, and a table of pointers finds it;
// the table is local in every memory (16 bytes for an item of about 200), and locks in stripes
// protect it. A get copies the value into a reply and checks the copy; a set puts a new item with
// a new size in place of the old one, so that memory fragments as a cache's does.
//
// MCD-CL: the keys and sizes of requests.h. MCD-U: all keys alike, items of 256 bytes.

#include "bench/heap/workload.h"

namespace yonder::bench::heap {

template <typename Memory>
Measured run_mcd_cl(const Work& work);
template <typename Memory>
Measured run_mcd_u(const Work& work);

}  // namespace yonder::bench::heap
