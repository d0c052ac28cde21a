#pragma once
// Arrival: a segment whose owner we are and whose bytes are still elsewhere.
//
// The segment's file is mapped twice: where the application *sees* it, and where bytes
// are *filled* in. The first mapping is registered with userfaultfd for missing and minor
// faults, so that a page can be seen only after admit(); until then a touch raises SIGBUS
// in the toucher, who pulls the page (and some neighbours) by one-sided reads into the
// second mapping and admits it. There is no copy but the read itself, no other thread to
// wake, and the room can be allocated before the transfer.
//
// Pages, and who changes them:
//
//   state    | touch               | pull, prefetch | becomes
//   ---------+---------------------+----------------+-----------------------------------
//   missing  | claimed by toucher  | claimed        | claimed
//   zero     | claimed by toucher  | skipped        | claimed: there is no data for it
//   claimed  | toucher waits       | skipped        | arrived; missing if the read failed
//   arrived  | mapped, with those  | skipped        | –
//            | that follow         |                |
//
//   A1  Only who changed a page from missing or zero to claimed writes to it, and nobody
//       sees it then. So a late read can never overwrite what the application has stored.
//   A2  A page is mapped where it is seen only when it is complete: by the toucher who
//       pulled it before it is arrived, or by a later touch. What the prefetcher brings is
//       not mapped at once: most of it is not touched before all is there, and then the
//       kernel maps it, sixteen pages at a time.
//   A3  missing_pages() is the number of pages with data that have not arrived. Pages
//       without data (zero) need nothing: once faults are the kernel's again it makes
//       pages of zeros itself.
//
// Why A1 holds when a read fails: a fabric's request does not touch its buffers after its
// completion (E3 of fabric/endpoint.h), so the claim is given back only after the last
// byte was written.
//
// Concurrency: serve_fault, pull, missing… from any thread; prefetch by one thread.
// Lifetime: both mappings and the fabric outlive it. The router must not know it any more
// when it is destroyed.

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/fabric/fabric.h"
#include "yonder/os/userfaultfd.h"
#include "yonder/segment/ids.h"
#include "yonder/segment/internal/fault_router.h"
#include "yonder/segment/internal/heat.h"
#include "yonder/segment/internal/lane.h"

namespace yonder::segment::internal {

inline constexpr Duration kNextSourceAfter = std::chrono::milliseconds(200);

struct ArrivalOptions {
  // A touch of a page that has not arrived pulls it. Off: it is an error of the program.
  bool pull_on_touch = true;
  std::uint32_t demand_lanes = 2;
  // Pages per pull: grows while touches are sequential, shrinks while they are not.
  std::uint32_t min_pages = 4;
  std::uint32_t max_pages = 64;
  // At least so many where touches are dense (Heat). Worth it where bytes cost next to nothing: on
  // shm; over sockets a touch would wait for more than it saves later ones.
  std::uint32_t dense_pages = 0;
  // How long a touch waits for its source before the page counts as lost…
  Duration source_timeout = std::chrono::seconds(5);
  // …and before the next source is asked, if there is one. It has the same bytes, so that a
  // source that is only slow is no harm; who touched the page should not wait long.
  Duration next_source_after = kNextSourceAfter;
};

struct PrefetchOptions {
  std::uint64_t bytes_per_second = 0;  // 0: as fast as it goes
  std::uint32_t chunk_pages = 64;
  std::uint32_t depth = 4;  // chunks under way
  // While pages are pulled by touches: one small chunk, then a pause. Each chunk takes cores
  // and line from a touch for as long as it lasts; one in so long delays one touch in thirty,
  // and the prefetcher still gets on. Off where bytes cost next to nothing: on shm.
  bool yields = false;
  std::uint32_t yielding_chunk_pages = 16;
  Duration yielding_pause = std::chrono::milliseconds(2);
};

class Arrival final : public FaultServer {
  enum PageState : std::uint8_t { kMissing, kZero, kClaimed, kArrived };

 public:
  struct Source {
    std::string address;
    fabric::RegionToken region;
  };
  struct Memory {
    std::span<std::byte> seen;
    std::span<std::byte> filled;
  };

  // Connects the lanes and registers `memory.seen`. The sources have the same bytes: when one
  // does not answer, the next is asked from then on. Requires at least one.
  static Result<std::unique_ptr<Arrival>> open(fabric::Fabric& fabric, const std::vector<Source>& sources,
                                               const Memory& memory, const ArrivalOptions& options);
  ~Arrival() override;

  FaultAnswer serve_fault(std::uintptr_t address) noexcept override;

  // Returns when the range is there. kSegmentLost: no source answers; what has not arrived is
  // in missing(). kDeadlineExceeded, kOutOfBounds.
  Result<void> pull(ByteRange range, Deadline deadline);
  // Pulls everything in order until all is there (true) or it is told to stop (false).
  // kSegmentLost.
  Result<bool> prefetch(const PrefetchOptions& options, const std::stop_token& stop);
  // These ranges have no data at the source: they need not be asked for.
  void mark_zero(ByteRange range);
  // All that will be said of holes has been: from now on missing_pages() is what will be read.
  void end_of_holes() { knows_holes_.store(true, std::memory_order_release); }
  bool knows_holes() const { return knows_holes_.load(std::memory_order_acquire); }

  std::uint64_t missing_pages() const { return missing_.load(std::memory_order_acquire); }
  bool is_complete() const { return missing_pages() == 0; }
  // What has not arrived, in order.
  std::vector<ByteRange> missing() const;
  // What has arrived since the last call of this. By one thread.
  std::vector<ByteRange> take_unreported();
  // Whether every source was found dead.
  bool is_source_lost() const { return lost_.load(std::memory_order_acquire); }
  std::uint64_t faults() const { return faults_.load(std::memory_order_relaxed); }

  // Everything is there: faults are the kernel's again. Requires is_complete().
  Result<void> finish();

 private:
  struct Run {
    std::size_t first = 0;
    std::size_t count = 0;
  };
  struct DemandLane {
    std::atomic<bool> busy{false};
    std::unique_ptr<Lane> lane;
  };
  // A source, with the connections to it.
  struct Route {
    explicit Route(std::uint32_t demand_lanes) : lanes(demand_lanes) {}
    fabric::RegionToken region;
    std::vector<DemandLane> lanes;
    std::unique_ptr<Lane> prefetch_lane;
  };
  class LaneLease;
  class Prefetcher;

  Arrival(fabric::Fabric& fabric, const Memory& memory, const ArrivalOptions& options,
          os::Userfaultfd faults);
  Result<void> add_route(fabric::Fabric& fabric, const Source& source);
  Result<std::unique_ptr<Lane>> connect_lane(fabric::Fabric& fabric, const Source& source,
                                             const LaneOptions& options);
  // acquire: pairs with turn_away_from(); not needed for the routes, which are constant.
  std::size_t route() const { return route_.load(std::memory_order_acquire); }
  // This route's source does not answer: the next one's turn. False if there is none.
  bool turn_away_from(std::size_t route);

  // Claims missing pages from `first` on, at most `limit`.
  Run claim(std::size_t first, std::size_t limit);
  fabric::LocalPiece piece_of(Run run) const;
  Result<void> fetch(Run run, Deadline deadline);
  // Ends a claim; with or without mapping the pages.
  Result<void> land(Run run);
  void land_unmapped(Run run);
  void set_arrived(Run run);
  void give_back(Run run);
  Result<void> admit(Run run);
  FaultAnswer admit_arrived(std::size_t page);
  Result<void> bring(std::size_t page, std::size_t count, Deadline deadline);
  // Of a read by a route that begins now.
  Deadline route_deadline(std::size_t route) const {
    const bool last = route + 1 == routes_.size();
    return Deadline::after(clock_, last ? options_.source_timeout : options_.next_source_after);
  }
  Deadline source_deadline() const { return Deadline::after(clock_, options_.source_timeout); }
  Result<void> bring_zero(std::size_t page);
  std::size_t pages_for(std::size_t page);
  // Whether somebody pulls, or did a moment ago and is likely to go on. A hint.
  bool is_being_pulled() const;

  const Memory memory_;
  const ArrivalOptions options_;
  const Clock& clock_;
  const std::size_t pages_;
  os::Userfaultfd uffd_;
  fabric::Region landing_;                      // where a NIC needs registered memory
  std::vector<std::unique_ptr<Route>> routes_;  // constant once it is open
  std::atomic<std::size_t> route_{0};           // only grows
  std::unique_ptr<std::atomic<std::uint8_t>[]> states_;
  std::atomic<std::uint64_t> missing_;
  std::vector<bool> reported_;  // by take_unreported(); its thread's
  std::atomic<std::uint64_t> faults_{0};
  std::atomic<bool> lost_{false};
  std::atomic<bool> knows_holes_{false};
  std::atomic<std::uint32_t> pulls_under_way_{0};
  std::atomic<std::int64_t> last_pull_ns_{0};  // when the last one ended
  // Hints about the order of touches: stale values only cost a pull of another size.
  std::atomic<std::size_t> last_end_{0};
  std::atomic<std::uint32_t> window_;
  Heat heat_;
};

}  // namespace yonder::segment::internal
