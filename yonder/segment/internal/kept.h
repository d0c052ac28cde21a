#pragma once
// Kept: a copy of a segment that is moving between two other processes, kept here until its
// target has all of it (ConnectOptions::keep_until_complete).
//
//   source                      here                          target
//   Keep      ────────────────▶ a file, readable by peers
//   Offer     ──────────────────────────────────────────────▶ lanes to the source and to here
//   (fence)
//   KeepCopy  ────────────────▶ reads the bytes
//   (commit), Transfer ─────────────────────────────────────▶ pulls; if the source dies, from here
//                               gone            ◀──────────── Close
//
//   K1  The copy is complete before the commit: whoever can own the segment afterwards can
//       have all of it although the source dies.
//   K2  The source's bytes do not change from the fence on, so source and copy are the same,
//       and a target may read each page from either.
//
// Concurrency: `copying` is held by who writes to it; the rest is constant. Lifetime: shared by
// the agent's table and calls under way.

#include <memory>
#include <string>
#include <utility>

#include "yonder/base/result.h"
#include "yonder/fabric/fabric.h"
#include "yonder/fabric/region.h"
#include "yonder/os/mapping.h"
#include "yonder/os/memfd.h"
#include "yonder/segment/directory.h"
#include "yonder/segment/internal/lane.h"
#include "yonder/sync/mutex.h"

namespace yonder::segment::internal {

struct Kept {
  Kept(const SegmentRecord& move, const fabric::RegionToken& source, os::Memfd copy)
      : record(move), from(source), file(std::move(copy)) {}

  const SegmentRecord record;  // Of the move: owner is the source, target the target.
  const fabric::RegionToken from;
  os::Memfd file;
  os::Mapping memory;
  fabric::Region region;  // What the target reads.
  sync::Mutex copying;
  std::unique_ptr<Lane> lane YONDER_GUARDED_BY(copying);  // To the source.
};

// Makes room and connects to the source. Errors of files, mappings and the fabric.
Result<std::shared_ptr<Kept>> make_kept(fabric::Fabric& fabric, const SegmentRecord& record,
                                        const std::string& address, const fabric::RegionToken& from);
// Reads a range from the source. Errors of a fabric's read; kOutOfBounds.
Result<void> copy_range(Kept& kept, ByteRange range, Deadline deadline);

}  // namespace yonder::segment::internal
