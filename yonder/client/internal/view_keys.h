#pragma once
// ViewKeys: which region a block is, for nodes that register every block by itself
// (ViewKind::kKeys of protocol.h).
//
// A key is good for as long as the block's id is in use, wherever the block goes. When
// the id was given back its key names nothing: the target refuses, and the word is
// fetched again.
//
// Direct mapped and of fixed size, as Translations are.
//
// Concurrency: the session's thread. Lifetime: a value.

#include <bit>
#include <cstddef>
#include <optional>
#include <vector>

#include "yonder/fabric/types.h"
#include "yonder/node/object_ptr.h"

namespace yonder::client::internal {

class ViewKeys {
 public:
  // Takes no memory before the first put().
  explicit ViewKeys(std::size_t capacity) : capacity_(std::bit_ceil(capacity)) {}

  std::optional<fabric::RegionKey> find(node::BlockId block) const {
    if (places_.empty()) return std::nullopt;
    const Place& place = places_[index(block)];
    if (place.block != block || place.key == fabric::RegionKey{}) return std::nullopt;
    return place.key;
  }
  void put(node::BlockId block, fabric::RegionKey key) {
    if (places_.empty()) places_.resize(capacity_);
    places_[index(block)] = {.block = block, .key = key};
  }
  void forget(node::BlockId block) {
    if (find(block)) places_[index(block)] = {};
  }
  void clear() { places_.clear(); }

 private:
  struct Place {
    node::BlockId block;
    fabric::RegionKey key;
  };
  std::size_t index(node::BlockId block) const { return block.value() & (capacity_ - 1); }

  const std::size_t capacity_;
  std::vector<Place> places_;
};

}  // namespace yonder::client::internal
