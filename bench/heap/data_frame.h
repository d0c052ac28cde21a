#pragma once
// DF: columns of a table that are copied and shuffled.
//
// A copy reads a column and writes another from beginning to end; a shuffle writes a column in
// order and reads the other row by row in an order that is random. A column is made of chunks of
// 512 bytes, so that one row does not cost a page.
//
// Chunks are far; the lists of chunks (8 bytes each) and the order of the rows are local. An
// operation is a row of one column, copied or shuffled.

#include "bench/heap/workload.h"

namespace yonder::bench::heap {

template <typename Memory>
Measured run_data_frame(const Work& work);

}  // namespace yonder::bench::heap
