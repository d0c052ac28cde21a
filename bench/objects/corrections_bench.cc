// Reads with pointers that compaction made old.
#include <fmt/format.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/objects/node_bed.h"
#include "bench/objects/objects_bench.h"
#include "bench/objects/timing.h"
#include "yonder/base/prng.h"
#include "yonder/os/steady_clock.h"

namespace yonder::bench {
namespace {

using node::Correction;
using node::Heap;
using node::HeapThread;
using node::ObjectPtr;

const os::SteadyClock kClock;

// Pointers to the same objects before and after they were corrected.
struct Displaced {
  std::vector<ObjectPtr> old;
  std::vector<ObjectPtr> corrected;
};

// Fills the heap, frees three of four objects, compacts, and finds those that got
// another slot.
Result<Displaced> displace(Heap& heap, const CorrectionOptions& options) {
  YONDER_TRY(thread, heap.register_thread());
  std::vector<ObjectPtr> all;
  for (std::uint64_t i = 0; i < options.objects; ++i) {
    YONDER_TRY(object, thread.alloc(options.object_bytes));
    all.push_back(object);
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i % 4 != 0) YONDER_TRY_VOID(thread.free(all[i]));
  }
  heap.compactor().compact_all();
  Displaced out;
  for (std::size_t i = 0; i < all.size(); i += 4) {
    YONDER_TRY(found, thread.find(all[i]));
    if (found == all[i]) continue;
    out.old.push_back(all[i]);
    out.corrected.push_back(found);
  }
  if (out.old.empty()) return fail(ErrorCode::kCorrupt, "compaction displaced nothing");
  return out;
}

// The rate of reads of objects chosen at random. A copy of the pointer: the caller's
// would be corrected by the first read.
template <typename Seconds, typename Read>
double read_rate(const CorrectionOptions& options, Seconds&& seconds, Prng& random,
                 const std::vector<ObjectPtr>& from, bool& failed, Read&& read) {
  return rate(options.reads, seconds, [&](std::uint64_t) {
    ObjectPtr object = from[random.below(from.size())];
    failed |= !read(object);
  });
}

Result<void> measure_requests(const CorrectionOptions& options, Correction correction, const std::string& by,
                              Report& report) {
  const bool owners = correction == Correction::kOwner;
  YONDER_TRY(bed, NodeBed::create("shm", std::uint64_t{256} << 20, correction, owners ? 2 : 1));
  YONDER_TRY(displaced, displace(bed.server().heap(), options));
  YONDER_TRY(session, bed.connect());
  std::vector<std::byte> buffer(options.object_bytes);
  Prng random(options.seed);
  bool failed = false;
  const auto read = [&](const std::vector<ObjectPtr>& from) {
    return read_rate(options, wall_seconds, random, from, failed,
                     [&](ObjectPtr& object) { return session->read(object, buffer); });
  };
  const auto ratios =
      compare(options.rounds, [&] { return read(displaced.old); }, [&] { return read(displaced.corrected); });
  report.ratio("indirect_rpc_vs_direct_rpc_" + by, ratios);
  if (correction == Correction::kScan) report.ratio("indirect_rpc_vs_direct_rpc", ratios);
  return failed_if(failed);
}

// A thread that owns half of the blocks and does nothing but answer.
class Owner {
 public:
  static Result<std::unique_ptr<Owner>> start(Heap& heap) {
    YONDER_TRY(thread, heap.register_thread());
    return std::unique_ptr<Owner>(new Owner(std::move(thread)));
  }
  ~Owner() {
    ends_.store(true);
    runner_.join();
  }

 private:
  explicit Owner(HeapThread thread)
      : thread_(std::move(thread)), runner_([this] {
          while (!ends_.load()) thread_.answer_others();
        }) {}
  HeapThread thread_;
  std::atomic<bool> ends_{false};
  std::thread runner_;
};

Result<void> measure_inside(const CorrectionOptions& options, Correction correction, bool serving,
                            const std::string& by, Report& report) {
  YONDER_TRY(heap, Heap::create(kClock, {.limit = Bytes(std::uint64_t{256} << 20),
                                         .correction = correction,
                                         .owners = 2,
                                         .seed = options.seed | 1}));
  YONDER_TRY(displaced, displace(*heap, options));
  YONDER_TRY(thread, heap->register_thread());
  std::unique_ptr<Owner> owner;
  if (serving) {
    YONDER_TRY(started, Owner::start(*heap));
    owner = std::move(started);
  }
  std::vector<std::byte> buffer(options.object_bytes);
  Prng random(options.seed);
  bool failed = false;
  std::vector<double> indirect;
  std::vector<double> direct;
  const auto read = [&](const std::vector<ObjectPtr>& from) {
    return read_rate(options, thread_cpu_seconds, random, from, failed,
                     [&](ObjectPtr& object) { return thread.read(object, buffer); });
  };
  const auto ratios = compare(
      options.rounds, [&] { return indirect.emplace_back(read(displaced.old)); },
      [&] { return direct.emplace_back(read(displaced.corrected)); });
  report.ratio("indirect_vs_direct_" + by, ratios);
  report.result("correction_ns_" + by, 1e9 / median(indirect) - 1e9 / median(direct));
  if (serving) {
    const node::OwnerAnswers answers = heap->stats().owner_answers;
    const std::uint64_t all = answers.by_others + answers.by_asker + answers.unanswered;
    report.result("answered_by_owner", static_cast<double>(answers.by_others) / static_cast<double>(all));
  }
  return failed_if(failed);
}

Result<void> measure_one_sided(const CorrectionOptions& options, Report& report) {
  YONDER_TRY(bed, NodeBed::create("shm", std::uint64_t{256} << 20));
  YONDER_TRY(displaced, displace(bed.server().heap(), options));
  YONDER_TRY(by_rpc, bed.connect({.correction = client::Correction::kRpc}));
  YONDER_TRY(by_scan, bed.connect({.correction = client::Correction::kScan}));
  std::vector<std::byte> buffer(options.object_bytes);
  Prng random(options.seed);
  bool failed = false;
  const auto read = [&](client::Session& session) {
    return read_rate(options, wall_seconds, random, displaced.old, failed,
                     [&](ObjectPtr& object) { return session.direct_read(object, buffer); });
  };
  report.ratio("scan_vs_rpc_correction",
               compare(options.rounds, [&] { return read(*by_scan); }, [&] { return read(*by_rpc); }));
  report.result("displaced_objects", static_cast<double>(displaced.old.size()));
  return failed_if(failed);
}

}  // namespace

Result<void> measure_corrections(const CorrectionOptions& options, Report& report) {
  for (const auto& [correction, by] :
       {std::pair(Correction::kScan, "scan"), std::pair(Correction::kIndex, "index"),
        std::pair(Correction::kOwner, "owner")}) {
    YONDER_TRY_VOID(measure_requests(options, correction, by, report));
    YONDER_TRY_VOID(measure_inside(options, correction, false, by, report));
  }
  YONDER_TRY_VOID(measure_inside(options, Correction::kOwner, true, "owner_serving", report));
  return measure_one_sided(options, report);
}

}  // namespace yonder::bench
