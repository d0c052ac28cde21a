#pragma once
// Names for objects that may be gone: pools and tables with generations.
//
// Events in the queue and messages on the wire outlive the endpoints, regions and
// requests they speak of. They therefore hold a Ref (slot and generation), and
// whoever meets one asks whether the object still exists. Slots are handed out in
// a fixed order, so Refs are equal in equal runs: they may enter the trace hash,
// as pointers may not.
//
// Concurrency: one thread.

#include <cstdint>
#include <memory>
#include <vector>

#include "yonder/base/check.h"

namespace yonder::fabric::sim {

struct Ref {
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;  // 0: names nothing
  friend constexpr bool operator==(Ref, Ref) = default;
};

// Owns its objects and reuses them with their memory (vectors inside keep their
// capacity): no allocation in the steady state. T has a member `Ref ref`.
template <typename T>
class Pool {
 public:
  // An object in whatever state release() found it; the caller sets all fields.
  T& acquire() {
    if (free_.empty()) grow();
    T& object = at(free_.back());
    free_.pop_back();
    ++live_;
    return object;
  }
  void release(T& object) {
    ++object.ref.generation;
    free_.push_back(object.ref.slot);
    --live_;
  }
  T* find(Ref ref) {
    if (ref.generation == 0) return nullptr;
    T& object = at(ref.slot);
    return object.ref.generation == ref.generation ? &object : nullptr;
  }
  std::size_t live() const { return live_; }
  // In order of slots. Slow: for rare events.
  template <typename Visitor>
  void for_each_live(Visitor visit) {
    std::vector<bool> is_free(chunks_.size() * kChunk);
    for (const std::uint32_t slot : free_) is_free[slot] = true;
    for (std::uint32_t slot = 0; slot < is_free.size(); ++slot) {
      if (!is_free[slot]) visit(at(slot));
    }
  }

 private:
  static constexpr std::uint32_t kChunk = 64;

  T& at(std::uint32_t slot) { return chunks_[slot / kChunk][slot % kChunk]; }
  void grow() {
    const auto base = static_cast<std::uint32_t>(chunks_.size()) * kChunk;
    chunks_.push_back(std::make_unique<T[]>(kChunk));
    free_.reserve(base + kChunk);
    for (std::uint32_t i = kChunk; i-- > 0;) {
      chunks_.back()[i].ref = {base + i, 1};
      free_.push_back(base + i);
    }
  }

  std::vector<std::unique_ptr<T[]>> chunks_;  // Chunks never move: references stay valid.
  std::vector<std::uint32_t> free_;
  std::size_t live_ = 0;
};

// Knows objects that somebody else owns.
template <typename T>
class Table {
 public:
  Ref add(T& object) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(entries_.size()));
      entries_.push_back({nullptr, 1});
    }
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    entries_[slot].object = &object;
    ++live_;
    return {slot, entries_[slot].generation};
  }
  void remove(Ref ref) {
    YONDER_CHECK(find(ref) != nullptr, "an object leaves its table once");
    entries_[ref.slot].object = nullptr;
    ++entries_[ref.slot].generation;
    free_.push_back(ref.slot);
    --live_;
  }
  T* find(Ref ref) const {
    if (ref.generation == 0 || entries_[ref.slot].generation != ref.generation) return nullptr;
    return entries_[ref.slot].object;
  }
  template <typename Visitor>
  void for_each(Visitor visit) const {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (T* object = entries_[i].object) visit(*object);
    }
  }
  std::size_t live() const { return live_; }

 private:
  struct Entry {
    T* object;
    std::uint32_t generation;
  };
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> free_;
  std::size_t live_ = 0;
};

}  // namespace yonder::fabric::sim
