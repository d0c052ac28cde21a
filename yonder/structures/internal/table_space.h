#pragma once
// The space of one front end in a table's memory: what it has reserved, and what it may
// use again (T3 of hash_table.h).
//
// One place, the largest that came back, is kept for images that are no larger than those
// they replace: an erase needs space before it frees some, and a full table must not stay
// full for ever.
//
// Concurrency: the front end's thread. Lifetime: the core's.

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "yonder/structures/internal/table_layout.h"

namespace yonder::structures::internal {

struct Place {
  std::uint32_t image_class = 0;  // of the place; never changes
  std::uint32_t tag = 0;          // of what is written to it next
  std::uint64_t offset = 0;

  // Of an image that was replaced.
  static Place of(const BucketWord& word) {
    return {.image_class = word.image_class, .tag = word.tag, .offset = word.offset};
  }
};

class TableSpace {
 public:
  // A place for an image of the class, or of a larger one if there is no other; none:
  // reserve another chunk. `shrinks`: it replaces one that is no smaller.
  std::optional<Place> try_take(std::uint32_t image_class, bool shrinks) {
    if (!free_[image_class].empty()) return take_free(image_class);
    const std::uint32_t bytes = kImageBytes[image_class];
    if (end_ - next_ >= bytes)
      return Place{.image_class = image_class, .offset = std::exchange(next_, next_ + bytes)};
    for (std::uint32_t larger = image_class + 1; larger < kImageClasses; ++larger) {
      if (!free_[larger].empty()) return take_free(larger);
    }
    if (shrinks && kept_ && kept_->image_class >= image_class) return std::exchange(kept_, std::nullopt);
    return std::nullopt;
  }

  // The place was written to with its tag, whether that was published or not.
  void give(Place place) {
    place.tag = (place.tag + 1) % BucketWord::kTags;
    if (!kept_) {
      kept_ = place;
      return;
    }
    if (kept_->image_class < place.image_class) std::swap(*kept_, place);
    accept(place);
  }

  // One that somebody else had, and gave away.
  void accept(const Place& place) {
    free_[place.image_class].push_back(place);
    free_bytes_ += kImageBytes[place.image_class];
  }

  // What is left of the chunk before becomes places of the smallest class.
  void add_chunk(std::uint64_t begin, std::uint64_t end) {
    if (begin == end_) {
      end_ = end;
      return;
    }
    cut_chunk(0);
    next_ = begin;
    end_ = end;
  }

  // Of places that could be used now, without the chunk.
  std::uint64_t free_bytes() const { return free_bytes_; }

  // Free places of at least so many bytes together, or all; they are not ours any more. The
  // largest first: they hold the names of the others (table_magazine.h).
  std::vector<Place> release(std::uint64_t bytes) {
    std::vector<Place> out;
    std::uint64_t released = 0;
    for (std::uint32_t i = kImageClasses; i-- > 0;) {
      for (; released < bytes && !free_[i].empty(); released += kImageBytes[i]) out.push_back(take_free(i));
    }
    return out;
  }
  // Those, the one that is kept, and the rest of the chunk.
  std::vector<Place> release_all() {
    if (kept_) accept(*std::exchange(kept_, std::nullopt));
    for (std::uint32_t i = kImageClasses; i-- > 0;) cut_chunk(i);
    return release(free_bytes_);
  }

 private:
  Place take_free(std::uint32_t image_class) {
    const Place place = free_[image_class].back();
    free_[image_class].pop_back();
    free_bytes_ -= kImageBytes[image_class];
    return place;
  }

  void cut_chunk(std::uint32_t image_class) {
    const std::uint32_t bytes = kImageBytes[image_class];
    for (; end_ - next_ >= bytes; next_ += bytes) accept({.image_class = image_class, .offset = next_});
  }

  std::uint64_t next_ = 0;
  std::uint64_t end_ = 0;
  std::uint64_t free_bytes_ = 0;
  std::optional<Place> kept_;
  std::array<std::vector<Place>, kImageClasses> free_;
};

}  // namespace yonder::structures::internal
