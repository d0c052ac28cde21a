#include "yonder/structures/shuffle.h"

#include <xxhash.h>

#include <cstring>

namespace yonder::structures {

std::uint64_t shuffle_hash(std::span<const std::byte> key) { return XXH3_64bits(key.data(), key.size()); }

std::uint32_t hash_partition(std::span<const std::byte> key, std::uint32_t receivers) {
  // The high half of hash × receivers: a division costs more, and favours nobody less.
  return static_cast<std::uint32_t>(((shuffle_hash(key) >> 32) * receivers) >> 32);
}

ShuffleBatch::Lengths ShuffleBatch::lengths(std::uint32_t index) const {
  if (directory_ == nullptr) return uniform_;
  Lengths lengths;
  std::memcpy(&lengths, directory_ + std::size_t{index} * sizeof lengths, sizeof lengths);
  return lengths;
}

ShuffleEntry ShuffleBatch::Iterator::operator*() const {
  const Lengths lengths = batch_->lengths(index_);
  const std::byte* const body = batch_->bodies_ + offset_;
  return {.key = {body, lengths.key}, .value = {body + lengths.key, lengths.value}};
}

ShuffleBatch::Iterator& ShuffleBatch::Iterator::operator++() {
  const Lengths lengths = batch_->lengths(index_);
  offset_ += std::size_t{lengths.key} + lengths.value;
  ++index_;
  return *this;
}

}  // namespace yonder::structures
