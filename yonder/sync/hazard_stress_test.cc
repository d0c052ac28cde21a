#include <gtest/gtest.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "yonder/sync/hazard.h"
#include "yonder/sync/hazard_retire.h"

namespace yonder::sync {
namespace {

// os::Membarrier is a sibling that sync must not use, so the stress test issues
// the system call itself.
bool register_membarrier() {
  return ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}
void issue_membarrier() { ::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0); }

constexpr std::uint64_t kAlive = 0x600d600d600d600d;
constexpr std::uint64_t kDead = 0xdeaddeaddeaddead;

struct Object {
  std::atomic<std::uint64_t> state{kAlive};
  std::uint64_t payload = 0;  // Plain: a race or a use after free shows up in the sanitizers.
};

void free_object(void*, HazardValue value) {
  auto* const object = reinterpret_cast<Object*>(value);
  object->state.store(kDead, std::memory_order_relaxed);
  object->payload = ~std::uint64_t{0};
  delete object;
}

struct Totals {
  std::uint64_t used = 0;
  std::uint64_t dead = 0;
};

Totals read_until(HazardDomain<>& domain, const std::atomic<Object*>& source, const std::atomic<bool>& stop) {
  Totals totals;
  while (!stop.load(std::memory_order_relaxed) || totals.used == 0) {
    // Threads come and go: the slots are registered anew now and then.
    auto thread = domain.register_thread().value();
    for (int i = 0; i < 1000; ++i) {
      const auto held = thread.try_protect(source);
      if (!held) continue;
      ++totals.used;
      const bool dead = held.pointer->state.load(std::memory_order_relaxed) != kAlive ||
                        held.pointer->payload == ~std::uint64_t{0};
      totals.dead += dead ? 1 : 0;
    }
  }
  return totals;
}

void replace_objects_under_readers(HazardDomain<>& domain, int replacements) {
  std::atomic<Object*> source{new Object};
  std::atomic<bool> stop{false};
  std::array<Totals, 2> totals;
  std::vector<std::thread> readers;
  for (Totals& each : totals) readers.emplace_back([&] { each = read_until(domain, source, stop); });
  {
    RetireList<> list(domain, 32, free_object, nullptr);
    for (int i = 0; i < replacements; ++i) {
      auto* const fresh = new Object;
      fresh->payload = static_cast<std::uint64_t>(i);
      list.retire(hazard_value(source.exchange(fresh, std::memory_order_acq_rel)));
    }
    stop = true;
    for (std::thread& reader : readers) reader.join();
  }
  delete source.load();
  for (const Totals& each : totals) {
    EXPECT_GT(each.used, 0u);
    EXPECT_EQ(each.dead, 0u);
  }
}

TEST(HazardStress, NothingIsFreedUnderAReaderWithMembarrier) {
  if (!register_membarrier()) GTEST_SKIP() << "the kernel has no private expedited membarrier";
  HazardDomain<> domain(4, issue_membarrier);
  replace_objects_under_readers(domain, 500'000);
}

TEST(HazardStress, NothingIsFreedUnderAReaderInFallbackMode) {
  HazardDomain<> domain(4);
  replace_objects_under_readers(domain, 500'000);
}

}  // namespace
}  // namespace yonder::sync
