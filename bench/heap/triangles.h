#pragma once
// ATC: triangles of a graph that grows, as with Aspen: neighbours are kept in trees.
//
// Each vertex has a search tree whose nodes hold sorted runs of neighbours. Three batches of edges
// are inserted in random order; after each, the triangles at some of the vertices are counted by
// merging the neighbours of a vertex with those of each neighbour: long pointer chases, short
// runs, and vertices that are visited again and again.
//
// Trees are far, their roots local. An operation is an insertion or a list that was merged.

#include "bench/heap/workload.h"

namespace yonder::bench::heap {

template <typename Memory>
Measured run_triangles(const Work& work);

}  // namespace yonder::bench::heap
