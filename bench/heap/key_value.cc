#include "bench/heap/key_value.h"

#include <array>
#include <bit>
#include <cstring>
#include <mutex>
#include <span>
#include <vector>

#include "bench/heap/memory.h"
#include "bench/heap/requests.h"
#include "bench/heap/workers.h"
#include "yonder/base/prng.h"

namespace yonder::bench::heap {
namespace {

constexpr double kShareOfSets = 0.126;

std::uint64_t mixed(std::uint64_t number) { return splitmix64(number); }

// An item's first two words name it; the others follow from them.
struct ItemHeader {
  std::uint64_t key;
  std::uint64_t version;
};
constexpr std::size_t kMaxItemBytes = 4096;

void fill_item(std::span<std::byte> item, ItemHeader header) {
  std::memcpy(item.data(), &header, sizeof(header));
  std::uint64_t word = mixed(header.key ^ header.version);
  for (std::size_t at = sizeof(header); at + 8 <= item.size(); at += 8, ++word)
    std::memcpy(item.data() + at, &word, 8);
}

bool is_whole(std::span<const std::byte> item, std::uint64_t key) {
  ItemHeader header;
  std::memcpy(&header, item.data(), sizeof(header));
  std::uint64_t expected = mixed(header.key ^ header.version);
  std::uint64_t differences = header.key ^ key;
  for (std::size_t at = sizeof(header); at + 8 <= item.size(); at += 8, ++expected) {
    std::uint64_t word;
    std::memcpy(&word, item.data() + at, 8);
    differences |= word ^ expected;
  }
  return differences == 0;
}

// Keys are 0 … keys - 1, all there from the beginning: sets replace.
template <typename Memory>
class Cache {
 public:
  // Twice as many slots as keys: chains of probes stay short.
  explicit Cache(std::uint64_t keys) : slots_(std::bit_ceil(keys * 2)), locks_(kLocks) {
    for (std::uint64_t key = 0; key < keys; ++key) find(key, 0).tag = key + 1;
  }

  void set(std::uint64_t key, std::uint64_t version, std::uint32_t value_bytes) {
    Item item = Memory::template make_array<std::byte>(sizeof(ItemHeader) + value_bytes);
    {
      const auto bytes = item.write();
      fill_item({bytes.data(), bytes.size()}, {.key = key, .version = version});
    }
    Slot& slot = find(key, key + 1);
    const std::lock_guard lock(lock_of(slot));
    slot.item = std::move(item);
  }

  // The item's bytes, copied to `reply`.
  std::span<const std::byte> get(std::uint64_t key, std::span<std::byte> reply) {
    Slot& slot = find(key, key + 1);
    const std::lock_guard lock(lock_of(slot));
    const auto bytes = slot.item.read();
    std::memcpy(reply.data(), bytes.data(), bytes.size());
    return reply.first(bytes.size());
  }

 private:
  using Item = typename Memory::template Ptr<std::byte[]>;
  struct Slot {
    std::uint64_t tag = 0;  // Key + 1; 0: empty.
    Item item;
  };
  static constexpr std::size_t kLocks = 4096;

  // The first slot of the key's chain of probes with this tag: its own, or an empty one.
  Slot& find(std::uint64_t key, std::uint64_t tag) {
    std::size_t at = mixed(key) & (slots_.size() - 1);
    while (slots_[at].tag != tag) at = (at + 1) & (slots_.size() - 1);
    return slots_[at];
  }
  std::mutex& lock_of(const Slot& slot) {
    return locks_[static_cast<std::size_t>(&slot - slots_.data()) % kLocks];
  }

  std::vector<Slot> slots_;
  std::vector<std::mutex> locks_;
};

// A stream of requests of one thread.
template <typename Memory, typename Keys, typename ValueBytes>
class Client {
 public:
  Client(Cache<Memory>& cache, const Keys& keys, ValueBytes value_bytes, std::uint64_t seed)
      : cache_(cache), keys_(keys), value_bytes_(value_bytes), random_(seed) {}

  void operate(Measured& measured) {
    const std::uint64_t key = keys_.next(random_);
    if (random_.chance(kShareOfSets)) {
      cache_.set(key, random_(), value_bytes_(random_));
    } else {
      const auto item = cache_.get(key, reply_);
      measured.wrong_objects += is_whole(item, key) ? 0 : 1;
    }
    measured.checksum += mixed(key);
    ++measured.operations;
  }

 private:
  Cache<Memory>& cache_;
  Keys keys_;
  ValueBytes value_bytes_;
  Prng random_;
  std::array<std::byte, kMaxItemBytes> reply_;
};

template <typename Memory, typename Keys, typename ValueBytes>
Measured run(const Work& work, std::uint64_t mean_item_bytes, std::uint64_t operations,
             ValueBytes value_bytes) {
  const std::uint64_t keys = work.bytes / mean_item_bytes;
  Cache<Memory> cache(keys);
  const Scatter order(keys);
  on_threads(work.threads, [&](unsigned t) {
    Prng random(work.seed * 31 + t);
    for (std::uint64_t i = t; i < keys; i += work.threads) cache.set(order(i), i, value_bytes(random));
  });
  std::vector<Client<Memory, Keys, ValueBytes>> clients;
  for (unsigned t = 0; t < work.threads; ++t)
    clients.emplace_back(cache, Keys(keys), value_bytes, work.seed * 17 + t);
  const auto serve = [&](const Work& load, std::uint64_t count, std::span<Measured> results) {
    on_threads(work.threads, [&](unsigned t) {
      Schedule schedule(load);
      for (std::uint64_t i = 0; i < count / work.threads; ++i) {
        const Instant due = schedule.next();
        clients[t].operate(results[t]);
        if (load.requests_per_s != 0) results[t].latency_ns.record(Schedule::elapsed_ns(due));
      }
    });
  };
  std::vector<Measured> results(work.threads);
  Work closed = work;
  closed.requests_per_s = 0;
  serve(closed, operations / 2, results);  // Until local memory holds what is hot.
  results.assign(work.threads, Measured());
  if (work.on_measure) work.on_measure();
  const Instant begin = os::SteadyClock::read();
  serve(work, operations, results);
  const double seconds = seconds_since(begin);
  return finish(work, results, seconds);
}

}  // namespace

template <typename Memory>
Measured run_mcd_cl(const Work& work) {
  // Values of requests.h have 194 bytes on average.
  constexpr std::uint64_t kMeanItemBytes = 210;
  const auto operations =
      static_cast<std::uint64_t>(work.effort * 4 * static_cast<double>(work.bytes / kMeanItemBytes));
  return run<Memory, ChurningKeys>(work, kMeanItemBytes, operations, &cache_value_bytes);
}

template <typename Memory>
Measured run_mcd_u(const Work& work) {
  constexpr std::uint32_t kItemBytes = 256;
  const auto operations =
      static_cast<std::uint64_t>(work.effort * static_cast<double>(work.bytes / kItemBytes));
  return run<Memory, UniformKeys>(work, kItemBytes, operations,
                                  [](Prng&) { return kItemBytes - std::uint32_t{sizeof(ItemHeader)}; });
}

template Measured run_mcd_cl<Far>(const Work&);
template Measured run_mcd_cl<Plain>(const Work&);
template Measured run_mcd_cl<Faulted>(const Work&);
template Measured run_mcd_u<Far>(const Work&);
template Measured run_mcd_u<Plain>(const Work&);
template Measured run_mcd_u<Faulted>(const Work&);

}  // namespace yonder::bench::heap
