#pragma once
// The build side of a join at one executor: rows, and a map from the hash of a key to
// the chain of rows that have it.
//
//   map (oneTBB concurrent_hash_map):  hash ──► row ──► row ──► …
//
// Rows are copied into chunks by one thread, one after the other; a full chunk is put
// into the map by whoever has time: the thread itself, or one of `threads`. So the part
// that misses caches, one random place per row, is the one that runs in parallel, and
// a chunk is handed over whole, not row by row.
//
// Rows of keys with equal hashes share a chain: a lookup compares the keys.
//
//   row   0      8           12            16
//        | next | key bytes | value bytes | key, value, to a multiple of 8 |
//
// Concurrency: add(), seal() and find_chains() from one thread. The map has a lock per
// entry, so threads that meet at a key prepend in turn; nothing is looked up before
// seal() has seen all threads done (their mutex is what makes the rows visible).
// Lifetime: rows live as long as the table.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "yonder/structures/shuffle.h"

namespace yonder::structures::internal {

class JoinTable {
 public:
  // `expected_rows` is a hint.
  JoinTable(std::uint32_t threads, std::uint64_t expected_rows);
  ~JoinTable();
  JoinTable(const JoinTable&) = delete;
  JoinTable& operator=(const JoinTable&) = delete;

  void add(const ShuffleEntry& row);
  // Returns when all rows are in the map. No add() after it.
  void seal();

  std::uint64_t rows() const { return rows_; }

  struct Row;
  // The rows that a key may have, for for_each().
  using Chain = const Row*;
  // Looks up the keys of `rows` and stores where their chains begin; `chains` has as
  // many places. Many at once, because a lookup is one cache miss after the other: those
  // of different keys overlap if nothing comes between them. Requires seal().
  void find_chains(std::span<const ShuffleEntry> rows, std::span<Chain> chains) const;

  // Calls see(value) for each row of the chain with this key until it returns false.
  template <typename See>
  static void for_each(Chain chain, std::span<const std::byte> key, See&& see) {
    for (Chain row = next_match(chain, key); row != nullptr; row = next_match(row->next, key)) {
      if (!see(value_of(*row))) return;
    }
  }

  struct Row {
    Row* next;
    std::uint32_t key_bytes;
    std::uint32_t value_bytes;
  };
  static_assert(sizeof(Row) == 16);

 private:
  struct Chunk {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t capacity = 0;
    std::size_t used = 0;
  };
  class Map;
  class Builders;

  static std::span<const std::byte> key_of(const Row& row);
  static std::span<const std::byte> value_of(const Row& row);
  static std::size_t row_bytes(std::size_t key_bytes, std::size_t value_bytes);
  // The first row with this key, from `row` on; null if there is none.
  static const Row* next_match(const Row* row, std::span<const std::byte> key);
  void hand_over();

  std::unique_ptr<Map> map_;
  std::unique_ptr<Builders> builders_;  // After the map they fill.
  std::vector<Chunk> chunks_;           // The last one is being filled, if is_filling_.
  bool is_filling_ = false;
  bool is_sealed_ = false;
  std::uint64_t rows_ = 0;
};

}  // namespace yonder::structures::internal
