#pragma once
// GPR: PageRank over a graph that grows, as in GraphOne.
//
// Each vertex has a list of blocks with the vertices that point to it. Three batches of edges
// arrive in random order, so the blocks of a vertex lie anywhere; after each batch a few
// iterations read all blocks in the order of the vertices. The first iteration finds no
// locality; a memory that brings in what is used together puts it in order for the next.
//
// Blocks are far; the ranks and the beginnings of the lists (28 bytes per vertex, a tenth of the
// whole) are local in every memory. An operation is an edge that was added or followed.

#include "bench/heap/workload.h"

namespace yonder::bench::heap {

template <typename Memory>
Measured run_page_rank(const Work& work);

}  // namespace yonder::bench::heap
