#pragma once
// One burst: S aligned bytes of remote memory, the changes to them that wait, and who
// made them. And the table that finds a burst by its place.
//
//   state    | bytes hold                         | in the table
//   ---------+------------------------------------+-------------
//   free     | nothing                            | no
//   held     | changes, and the background if any | yes
//   clean    | the background                     | yes
//   flying   | changes that are under way         | no
//
// The *background* is what the target holds: known to a sole writer, once fetched.
//
// Concurrency: one thread. Lifetime: bursts and their bytes live as long as the buffer.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "yonder/base/error.h"
#include "yonder/base/time.h"

namespace yonder::remote::internal {

// What is owed to one writer.
struct WriterState {
  std::optional<Error> error;  // The first since it was told last.
};
using WriterPtr = std::shared_ptr<WriterState>;

class Burst {
 public:
  enum class State : std::uint8_t { kFree, kHeld, kClean, kFlying };

  explicit Burst(std::span<std::byte> bytes) : bytes_(bytes), dirty_((bytes.size() + 63) / 64) {}

  void begin(std::uint64_t place) {
    place_ = place;
    state_ = State::kHeld;
    has_background_ = false;
    forget_changes();
  }
  void forget_changes() {
    changes_ = 0;
    std::fill(dirty_.begin(), dirty_.end(), 0);
    writers_.clear();
  }

  // `data` at `offset` of the burst, made by `writer` at `now`.
  void put(std::size_t offset, std::span<const std::byte> data, const WriterPtr& writer, Instant now);
  // Copies what is known of [offset, offset + out.size()): the changes, and the
  // background if there is one. Returns whether that is all of it.
  bool overlay(std::size_t offset, std::span<std::byte> out) const;
  // Calls f(offset, length) for each run of changed bytes.
  template <typename F>
  void for_each_run(F f) const {
    std::size_t at = 0;
    while ((at = find(at, true)) < bytes_.size()) {
      const std::size_t end = find(at, false);
      f(at, end - at);
      at = end;
    }
  }

  std::span<std::byte> bytes() const { return bytes_; }
  std::uint64_t place() const { return place_; }
  State state() const { return state_; }
  void set_state(State state) { state_ = state; }
  bool has_background() const { return has_background_; }
  void set_background() { has_background_ = true; }
  std::uint32_t changes() const { return changes_; }
  Instant since() const { return since_; }
  std::span<const WriterPtr> writers() const { return writers_; }

 private:
  bool is_dirty(std::size_t at) const { return (dirty_[at / 64] >> (at % 64) & 1) != 0; }
  // The first byte from `at` on that is dirty or not; the end if there is none.
  std::size_t find(std::size_t at, bool dirty) const;

  std::uint64_t place_ = 0;  // offset at the target / S
  State state_ = State::kFree;
  bool has_background_ = false;
  std::uint32_t changes_ = 0;
  Instant since_;  // the first change
  const std::span<std::byte> bytes_;
  std::vector<std::uint64_t> dirty_;  // a bit per byte
  std::vector<WriterPtr> writers_;    // each once
};

// Held and clean bursts by place: open addressing with linear probing, at most half
// full, so that nothing is allocated when bursts come and go.
class BurstTable {
 public:
  explicit BurstTable(std::size_t bursts);
  Burst* find(std::uint64_t place) const;
  // Requires that none is there (checked).
  void insert(Burst& burst);
  void erase(const Burst& burst);

 private:
  std::size_t home(std::uint64_t place) const;

  std::vector<Burst*> cells_;
};

}  // namespace yonder::remote::internal
