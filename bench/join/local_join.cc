#include "bench/join/local_join.h"

#include <tbb/concurrent_hash_map.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace yonder::bench {
namespace {

// The finalizer of splitmix64: oneTBB's own hash of an integer is a multiplication, whose
// low bits are those of the key.
struct MixedHash {
  static std::size_t hash(std::uint64_t key) {
    key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9;
    key = (key ^ (key >> 27)) * 0x94d049bb133111eb;
    return key ^ (key >> 31);
  }
  static bool equal(std::uint64_t a, std::uint64_t b) { return a == b; }
};
using Map = tbb::concurrent_hash_map<std::uint64_t, std::uint64_t, MixedHash>;

// Calls work(part) for each thread's part of `tuples` and waits for all.
template <typename Work>
void for_parts(std::span<const Tuple> tuples, std::uint32_t threads, const Work& work) {
  std::vector<std::thread> running;
  for (std::uint32_t i = 0; i < threads; ++i) {
    const std::size_t first = tuples.size() * i / threads;
    const std::size_t last = tuples.size() * (i + 1) / threads;
    running.emplace_back([&work, part = tuples.subspan(first, last - first)] { work(part); });
  }
  for (std::thread& thread : running) thread.join();
}

}  // namespace

LocalJoin run_local_join(std::span<const Tuple> build, std::span<const Tuple> probe, std::uint32_t threads) {
  const auto begin = std::chrono::steady_clock::now();
  Map map(build.size());
  for_parts(build, threads, [&map](std::span<const Tuple> part) {
    for (const Tuple& tuple : part) map.insert({tuple.key, tuple.value});
  });
  std::atomic<std::uint64_t> results{0};
  std::atomic<std::uint64_t> checksum{0};
  for_parts(probe, threads, [&](std::span<const Tuple> part) {
    std::uint64_t found = 0;
    std::uint64_t sum = 0;
    for (const Tuple& tuple : part) {
      Map::const_accessor entry;
      if (!map.find(entry, tuple.key)) continue;
      ++found;
      sum += tuple.key + tuple.value + entry->second;
    }
    results += found;
    checksum += sum;
  });
  // The map's end is not part of a join.
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  return {.seconds = elapsed.count(), .results = results, .checksum = checksum};
}

}  // namespace yonder::bench
