#include "bench/heap/dereference.h"

#include "bench/heap/memory.h"
#include "bench/heap/workers.h"
#include "yonder/base/prng.h"

namespace yonder::bench::heap {
namespace {

struct Link {
  std::uint64_t next;  // Which object is to be read after this one.
  std::uint64_t value;
};

// One cycle through all objects, in random order: what a chase follows.
std::vector<std::uint64_t> random_cycle(std::uint64_t objects, std::uint64_t seed) {
  std::vector<std::uint64_t> next(objects);
  for (std::uint64_t i = 0; i < objects; ++i) next[i] = i;
  Prng random(seed);
  for (std::uint64_t i = objects - 1; i > 0; --i) std::swap(next[i], next[random.below(i)]);  // Sattolo
  return next;
}

template <typename Memory>
class Links {
 public:
  explicit Links(const std::vector<std::uint64_t>& next) {
    pointers_.reserve(next.size());
    for (std::uint64_t i = 0; i < next.size(); ++i)
      pointers_.push_back(Memory::template make<Link>(Link{.next = next[i], .value = i * 3}));
  }

  // Sums of what `steps` dereferences read.
  std::uint64_t chase(std::uint64_t steps) const {
    std::uint64_t at = 0;
    std::uint64_t sum = 0;
    for (std::uint64_t i = 0; i < steps; ++i) {
      const auto link = pointers_[at].read();
      sum += link->value;
      at = link->next;
    }
    return sum;
  }
  std::uint64_t visit(std::uint64_t steps, std::uint64_t seed) const {
    std::uint64_t sum = 0;
    std::uint64_t state = seed;
    for (std::uint64_t i = 0; i < steps; ++i) {
      state = state * 6364136223846793005 + 1442695040888963407;
      const auto at = static_cast<std::size_t>((state >> 32) * pointers_.size() >> 32);
      sum += pointers_[at].read()->value;
    }
    return sum;
  }

 private:
  std::vector<typename Memory::template Ptr<Link>> pointers_;
};

template <typename Memory>
double time_of(const Links<Memory>& links, const DereferenceOptions& options, std::uint64_t& sum) {
  const Instant begin = os::SteadyClock::read();
  sum = options.dependent ? links.chase(options.steps) : links.visit(options.steps, options.seed);
  return seconds_since(begin) * 1e9 / static_cast<double>(options.steps);
}

}  // namespace

Result<DereferenceTimes> measure_dereferences(const DereferenceOptions& options) {
  const Bytes memory(options.objects * 32 + (std::uint64_t{8} << 20));
  YONDER_TRY(heap, far::Heap::create({.local = memory, .far = memory}));
  DereferenceTimes times;
  {
    const std::vector<std::uint64_t> cycle = random_cycle(options.objects, options.seed);
    const Links<Far> far_links(cycle);
    const Links<Plain> plain_links(cycle);
    // Every object once: cards are set and pages mapped, as in a program that has run a while.
    far_links.chase(options.objects);
    plain_links.chase(options.objects);
    for (int round = 0; round < options.rounds; ++round) {
      std::uint64_t far_sum = 0;
      std::uint64_t plain_sum = 0;
      times.far.push_back(time_of(far_links, options, far_sum));
      times.plain.push_back(time_of(plain_links, options, plain_sum));
      if (far_sum != plain_sum)
        return fail(ErrorCode::kCorrupt, "barrier bench: far and plain memory differ");
    }
  }
  far::Heap::leave_thread();
  return times;
}

}  // namespace yonder::bench::heap
