#pragma once
// Translations: words of the block table that a client has seen, and when.
//
// A word may be old: compaction may have switched the block since. How old a word
// may be depends on what the copy proves (one_sided_read.h); here it only says when
// it was certainly true.
//
// Direct mapped and of fixed size: a block that falls out costs one more word to
// fetch, and a client never holds more memory than it was given.
//
// Concurrency: the session's thread. Lifetime: a value.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "yonder/base/time.h"
#include "yonder/node/block_table.h"

namespace yonder::client::internal {

struct Translation {
  node::BlockEntry entry;
  Instant seen;  // The word was fetched after this moment.
};

class Translations {
 public:
  explicit Translations(std::size_t capacity) : places_(std::bit_ceil(capacity)) {}

  std::optional<Translation> find(node::BlockId block) const {
    if (is_empty_) return std::nullopt;  // Saves a miss of the cache while no block has moved.
    const Place& place = places_[index(block)];
    if (place.block != block || !place.translation.entry.valid()) return std::nullopt;
    return place.translation;
  }
  void put(node::BlockId block, const Translation& translation) {
    places_[index(block)] = {.block = block, .translation = translation};
    is_empty_ = false;
  }
  void clear() {
    places_.assign(places_.size(), Place{});
    is_empty_ = true;
  }

 private:
  struct Place {
    node::BlockId block;
    Translation translation;
  };
  // Ids of neighbouring blocks are neighbours: the low bits spread them.
  std::size_t index(node::BlockId block) const { return block.value() & (places_.size() - 1); }

  std::vector<Place> places_;
  bool is_empty_ = true;
};

}  // namespace yonder::client::internal
