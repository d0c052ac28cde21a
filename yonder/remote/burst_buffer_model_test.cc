// Random writers, readers and flushes on a burst buffer over a simulated network,
// against plain memory: reads see exactly what was written, and after close so does
// the target.
#include "yonder/remote/burst_buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/fabric/sim/world.h"
#include "yonder/testing/effort.h"
#include "yonder/testing/sanitizer.h"
#include "yonder/testing/seed.h"

namespace yonder::remote {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kBytes = 4096;

struct Bed {
  explicit Bed(std::uint64_t seed) : world({.seed = seed, .hosts = 2}), memory(kBytes) {
    fabric::Fabric& target = world.host(0).fabric();
    region = target.register_memory({.memory = memory, .rights = fabric::Rights::kAll}).value();
    listener = target.listen({.address = "sim://:7400", .passive = true}).value();
    queue = world.host(1).fabric().create_completion_queue({}).value();
    endpoint = world.host(1)
                   .fabric()
                   .connect({.address = "sim://host0:7400", .endpoint = {.depth = 8}}, *queue)
                   .value();
    scheduler = std::make_unique<fabric::Scheduler>(*queue);
  }

  fabric::sim::World world;
  std::vector<std::byte> memory;
  fabric::Region region;
  std::unique_ptr<fabric::Listener> listener;
  std::unique_ptr<fabric::CompletionQueue> queue;
  std::unique_ptr<fabric::Endpoint> endpoint;
  std::unique_ptr<fabric::Scheduler> scheduler;
};

// What a byte may be: each writer owns every fourth 64-byte stripe, so that the twin
// knows what a read must return although coroutines overlap.
struct Twin {
  std::vector<std::byte> bytes = std::vector<std::byte>(kBytes);
  bool is_wrong = false;
};

Task<void> work(Bed& bed, BurstBuffer& buffer, Prng random, std::uint64_t self, Twin& twin) {
  BurstWriter writer = buffer.writer();
  for (int i = 0; i < 60; ++i) {
    const std::uint64_t stripe = random.below(kBytes / 256) * 256 + self * 64;
    const std::uint64_t offset = stripe + random.below(32);
    const std::size_t count = 1 + random.below(32);
    std::vector<std::byte> bytes(count);
    const std::uint64_t kind = random.below(10);
    if (kind < 6) {
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
      std::copy(bytes.begin(), bytes.end(), twin.bytes.begin() + static_cast<std::ptrdiff_t>(offset));
      const Result<void> written = co_await writer.async_write(offset, bytes);
      twin.is_wrong = twin.is_wrong || !written;
    } else if (kind < 9) {
      const Result<void> read = co_await buffer.async_read(offset, bytes);
      const bool equal =
          std::equal(bytes.begin(), bytes.end(), twin.bytes.begin() + static_cast<std::ptrdiff_t>(offset));
      twin.is_wrong = twin.is_wrong || !read || !equal;
    } else {
      const Result<void> flushed = co_await writer.async_flush();
      twin.is_wrong = twin.is_wrong || !flushed;
    }
    if (random.chance(0.2)) co_await bed.scheduler->sleep_for(Duration(random.below(40'000)));
  }
}

TEST(BurstBufferModel, IsPlainMemoryToWhoUsesIt) {
  const std::uint64_t first = testing::test_seed();
  const std::uint64_t seeds = testing::scaled<std::uint64_t>(300) * testing::test_effort();
  for (std::uint64_t seed = first; seed != first + seeds; ++seed) {
    Prng random(seed);
    Bed bed(seed);
    bed.world.inject({.delay = 0.1, .max_delay = fabric::sim::us(20)});
    const BurstOptions options{.region_bytes = static_cast<std::uint32_t>(64U << random.below(5)),
                               .threshold = static_cast<std::uint32_t>(1 + random.below(12)),
                               .lease = Duration(5'000 + random.below(60'000)),
                               .max_regions = static_cast<std::uint32_t>(1 + random.below(8)),
                               .sole_writer = random.chance(0.5)};
    const Port port(*bed.endpoint, *bed.scheduler);
    auto buffer = BurstBuffer::create(bed.world.host(1).fabric(), port, bed.region.token(), options).value();
    Twin twin;
    for (std::uint64_t i = 0; i < 4; ++i) bed.scheduler->spawn(work(bed, *buffer, random.split(), i, twin));
    ASSERT_TRUE(bed.scheduler->run(Deadline::after(bed.world.clock(), 10s))) << "seed " << seed;
    ASSERT_TRUE(buffer->close());
    ASSERT_FALSE(twin.is_wrong) << "seed " << seed;
    ASSERT_TRUE(bed.memory == twin.bytes) << "the target differs, seed " << seed;
    ASSERT_EQ(buffer->stats().failed, 0U);
  }
}

}  // namespace
}  // namespace yonder::remote
