#pragma once
// Locate: from a pointer to the slot where its object is now.
//
// The table says in which frame the home block is; the pointer's slot is tried
// first. If another object is there, the object was displaced: its new slot is
// found in the headers of the frame (or in the index of displaced objects).
//
// While the block is being moved its objects are in two frames: those that have
// left are found through the *moved* words they left behind. That is safe because
//   L1  moved words are followed only inside a Section, in a frame the table named
//       in this section, and the frame they name is not retired in this section:
//       it is a destination of the run that moved them, which retires sources
//       only, and the next run begins by waiting for all sections that could have
//       seen these words.
//   L2  an object that is in the frame when its scan begins is met by the scan:
//       it moves at most once in a run, and its slot then holds the moved word.
// So if the scan fails and the table's entry has not changed, there is no object.
//
// Concurrency: inside a Section. Lifetime: a Place is valid within the section.

#include <cstdint>

#include "yonder/base/result.h"
#include "yonder/node/internal/heap_core.h"

namespace yonder::node::internal {

struct Place {
  Frame* frame = nullptr;
  std::uint32_t slot = 0;
  HeaderWord word;  // Names the object, in any state but moved.
};

// Checks what can be checked without looking: kInvalidArgument, kForeignPointer,
// kNoSuchObject (a class that does not exist, a size that does not fit it).
Result<void> check_pointer(const HeapCore& core, ObjectPtr object);

// kNoSuchObject. Requires check_pointer().
Result<Place> locate(const HeapCore& core, ObjectPtr object);

}  // namespace yonder::node::internal
