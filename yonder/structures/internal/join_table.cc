#include "yonder/structures/internal/join_table.h"

#include <tbb/concurrent_hash_map.h>
#include <tbb/tbb_allocator.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

#include "yonder/base/check.h"

namespace yonder::structures::internal {
namespace {

// Large enough that handing one over costs nothing per row, small enough that several
// threads have something to do soon.
constexpr std::size_t kChunkBytes = 256 * 1024;

struct SameHash {
  static std::size_t hash(std::uint64_t value) { return value; }  // It is one.
  static bool equal(std::uint64_t a, std::uint64_t b) { return a == b; }
};

// oneTBB's own allocator, unless ThreadSanitizer looks on: it does not see what happens
// inside that library, and reports memory that went from one thread to another.
#if defined(__SANITIZE_THREAD__)
#define YONDER_JOIN_STD_ALLOCATOR 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define YONDER_JOIN_STD_ALLOCATOR 1
#endif
#endif
template <typename T>
#if defined(YONDER_JOIN_STD_ALLOCATOR)
using MapAllocator = std::allocator<T>;
#else
using MapAllocator = tbb::tbb_allocator<T>;
#endif

}  // namespace

class JoinTable::Map {
 public:
  explicit Map(std::uint64_t expected_rows) : map_(std::max<std::uint64_t>(expected_rows, 1024)) {}

  // The rows in the first `used` bytes of a chunk.
  void insert_all(std::byte* bytes, std::size_t used) {
    for (std::size_t at = 0; at < used;) {
      auto* const row = reinterpret_cast<Row*>(bytes + at);
      insert(row);
      at += row_bytes(row->key_bytes, row->value_bytes);
    }
  }

  const Row* find(std::uint64_t hash) const {
    Rows::const_accessor found;
    return map_.find(found, hash) ? found->second : nullptr;
  }

 private:
  using Rows = tbb::concurrent_hash_map<std::uint64_t, Row*, SameHash,
                                        MapAllocator<std::pair<const std::uint64_t, Row*>>>;

  void insert(Row* row) {
    const std::uint64_t hash = shuffle_hash(key_of(*row));
    // Most keys are new, and a new entry needs no lock.
    if (map_.insert({hash, row})) return;
    Rows::accessor entry;  // The entry's lock. Entries are not removed: it is there.
    map_.find(entry, hash);
    row->next = entry->second;
    entry->second = row;
  }

  Rows map_;
};

// Threads that put chunks into the map. The queue is bounded by what there is to build.
class JoinTable::Builders {
 public:
  Builders(Map& map, std::uint32_t threads) : map_(map) {
    for (std::uint32_t i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  }
  ~Builders() { finish(); }

  void take(const Chunk& chunk) {
    if (threads_.empty()) return map_.insert_all(chunk.bytes.get(), chunk.used);
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back({chunk.bytes.get(), chunk.used});
    }
    changed_.notify_one();
  }

  // Returns when everything taken is in the map and the threads are gone.
  void finish() {
    {
      const std::lock_guard lock(mutex_);
      finished_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  struct Work {
    std::byte* bytes;
    std::size_t used;
  };

  void work() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return finished_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      const Work work = waiting_.front();
      waiting_.pop_front();
      lock.unlock();
      map_.insert_all(work.bytes, work.used);
    }
  }

  Map& map_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> waiting_;  // under mutex_
  bool finished_ = false;     // under mutex_
  std::vector<std::thread> threads_;
};

JoinTable::JoinTable(std::uint32_t threads, std::uint64_t expected_rows)
    : map_(std::make_unique<Map>(expected_rows)), builders_(std::make_unique<Builders>(*map_, threads)) {}

JoinTable::~JoinTable() = default;

std::span<const std::byte> JoinTable::key_of(const Row& row) {
  return {reinterpret_cast<const std::byte*>(&row + 1), row.key_bytes};
}

std::span<const std::byte> JoinTable::value_of(const Row& row) {
  return {reinterpret_cast<const std::byte*>(&row + 1) + row.key_bytes, row.value_bytes};
}

std::size_t JoinTable::row_bytes(std::size_t key_bytes, std::size_t value_bytes) {
  return (sizeof(Row) + key_bytes + value_bytes + 7) / 8 * 8;
}

void JoinTable::hand_over() {
  if (!is_filling_) return;
  is_filling_ = false;
  builders_->take(chunks_.back());
}

void JoinTable::add(const ShuffleEntry& row) {
  YONDER_DCHECK(!is_sealed_, "rows are added before the table is sealed");
  const std::size_t bytes = row_bytes(row.key.size(), row.value.size());
  if (is_filling_ && chunks_.back().capacity - chunks_.back().used < bytes) hand_over();
  if (!is_filling_) {
    const std::size_t capacity = std::max(kChunkBytes, bytes);
    chunks_.push_back({std::make_unique_for_overwrite<std::byte[]>(capacity), capacity, 0});
    is_filling_ = true;
  }
  Chunk& chunk = chunks_.back();
  std::byte* const to = chunk.bytes.get() + chunk.used;
  const Row header{nullptr, static_cast<std::uint32_t>(row.key.size()),
                   static_cast<std::uint32_t>(row.value.size())};
  std::memcpy(to, &header, sizeof header);
  // An empty span may have no address, which memcpy must not be given.
  if (!row.key.empty()) std::memcpy(to + sizeof header, row.key.data(), row.key.size());
  if (!row.value.empty())
    std::memcpy(to + sizeof header + row.key.size(), row.value.data(), row.value.size());
  chunk.used += bytes;
  ++rows_;
}

void JoinTable::seal() {
  hand_over();
  builders_->finish();
  is_sealed_ = true;
}

const JoinTable::Row* JoinTable::next_match(const Row* row, std::span<const std::byte> key) {
  while (row != nullptr && !(row->key_bytes == key.size() &&
                             (key.empty() || std::memcmp(row + 1, key.data(), key.size()) == 0)))
    row = row->next;
  return row;
}

void JoinTable::find_chains(std::span<const ShuffleEntry> rows, std::span<Chain> chains) const {
  YONDER_DCHECK(is_sealed_ && chains.size() >= rows.size(), "a table is sealed before it is asked");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    chains[i] = map_->find(shuffle_hash(rows[i].key));
    __builtin_prefetch(chains[i]);
  }
}

}  // namespace yonder::structures::internal
