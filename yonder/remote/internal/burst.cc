#include "yonder/remote/internal/burst.h"

#include <algorithm>
#include <bit>

#include "yonder/base/check.h"
#include "yonder/base/prng.h"

namespace yonder::remote::internal {

void Burst::put(std::size_t offset, std::span<const std::byte> data, const WriterPtr& writer, Instant now) {
  if (changes_++ == 0) since_ = now;
  state_ = State::kHeld;
  std::memcpy(bytes_.data() + offset, data.data(), data.size());
  for (std::size_t at = offset; at < offset + data.size();) {
    const std::size_t count = std::min<std::size_t>(64 - at % 64, offset + data.size() - at);
    const std::uint64_t ones = count == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
    dirty_[at / 64] |= ones << (at % 64);
    at += count;
  }
  if (std::find(writers_.begin(), writers_.end(), writer) == writers_.end()) writers_.push_back(writer);
}

std::size_t Burst::find(std::size_t at, bool dirty) const {
  while (at < bytes_.size()) {
    const std::uint64_t word = (dirty ? dirty_[at / 64] : ~dirty_[at / 64]) >> (at % 64);
    if (word != 0) return std::min(at + static_cast<std::size_t>(std::countr_zero(word)), bytes_.size());
    at = (at / 64 + 1) * 64;
  }
  return bytes_.size();
}

bool Burst::overlay(std::size_t offset, std::span<std::byte> out) const {
  if (has_background_) {
    std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return true;
  }
  std::size_t known = 0;
  const std::size_t stop = offset + out.size();
  for (std::size_t at = find(offset, true); at < stop;) {
    const std::size_t end = std::min(find(at, false), stop);
    std::memcpy(out.data() + (at - offset), bytes_.data() + at, end - at);
    known += end - at;
    at = find(end, true);
  }
  return known == out.size();
}

BurstTable::BurstTable(std::size_t bursts) : cells_(std::bit_ceil(bursts * 2)) {}

std::size_t BurstTable::home(std::uint64_t place) const {
  return static_cast<std::size_t>(splitmix64(place)) & (cells_.size() - 1);
}

Burst* BurstTable::find(std::uint64_t place) const {
  for (std::size_t i = home(place); cells_[i] != nullptr; i = (i + 1) & (cells_.size() - 1)) {
    if (cells_[i]->place() == place) return cells_[i];
  }
  return nullptr;
}

void BurstTable::insert(Burst& burst) {
  std::size_t i = home(burst.place());
  while (cells_[i] != nullptr) {
    YONDER_CHECK(cells_[i]->place() != burst.place(), "one burst for a place");
    i = (i + 1) & (cells_.size() - 1);
  }
  cells_[i] = &burst;
}

void BurstTable::erase(const Burst& burst) {
  const std::size_t mask = cells_.size() - 1;
  std::size_t hole = home(burst.place());
  while (cells_[hole] != &burst) hole = (hole + 1) & mask;
  // Those behind the hole move up, unless that would take them before their home.
  for (std::size_t i = (hole + 1) & mask; cells_[i] != nullptr; i = (i + 1) & mask) {
    const std::size_t distance = (i - home(cells_[i]->place())) & mask;
    if (distance < ((i - hole) & mask)) continue;
    cells_[hole] = cells_[i];
    hole = i;
  }
  cells_[hole] = nullptr;
}

}  // namespace yonder::remote::internal
