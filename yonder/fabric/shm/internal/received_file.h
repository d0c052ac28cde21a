#pragma once
// Mapping a file that a peer sent us, without trusting the peer.
//
// A peer that can shrink a file under our mapping can kill us with SIGBUS, so a
// file is mapped only if it is a memfd sealed against shrinking and has just the
// size that was announced.
//
// Concurrency: any thread. Lifetime: the descriptor is closed, the mapping stays.

#include <cstddef>

#include "yonder/base/result.h"
#include "yonder/os/fd.h"
#include "yonder/os/mapping.h"

namespace yonder::fabric::shm {

struct ReceivedFile {
  std::size_t bytes = 0;  // What the peer announced: the whole file.
  os::Protection protection = os::Protection::kRead;
  // Fill the page table for up to so many bytes that have memory: a first touch
  // costs microseconds later. Holes are left alone: populating would give them
  // memory, and a heap of 64 GiB is mostly holes.
  std::size_t populate_bytes = 0;
};

// kMalformedFrame if the file is not as described; kOutOfMemory (the limit on
// mappings, too), kPermissionDenied (read-only descriptor, writable mapping).
Result<os::Mapping> map_received(os::Fd fd, const ReceivedFile& expected);

}  // namespace yonder::fabric::shm
