#pragma once
// A magazine: free places of a hash table that a front end gave back, as they lie in memory
// until another one takes them. It is written into the largest of its places, which is the
// first in its list.
//
//   byte 0   magic
//   byte 8   next: the magazine below it on the stack (class and offset), or 0
//   byte 16  count
//   byte 24  checksum of all of it
//   byte 32  count places, each a word like a bucket's: tag of what is written there next, class, offset
//
// The top of the stack is a word of the table (TableShape::kFreeOffset): class and offset of a
// magazine, or offset 0, and a tag that counts its changes. To push, a front end writes
// magazines that lead to the top it saw, and swaps the top; to pop, it reads the top's
// magazine, and swaps the top for the next. If the swap succeeds nobody has touched the stack
// meanwhile, so what was read was whole.
//
// Concurrency: values. Lifetime: none borrows anything.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "yonder/structures/internal/table_layout.h"
#include "yonder/structures/internal/table_space.h"

namespace yonder::structures::internal {

struct Magazine {
  std::uint64_t next = 0;
  std::vector<Place> places;  // Not empty.

  static constexpr std::size_t kHeadBytes = 32;
  // Places that fit into one of this class.
  static constexpr std::size_t room(std::uint32_t image_class) {
    return (kImageBytes[image_class] - kHeadBytes) / 8;
  }
  const Place& home() const { return places.front(); }
  // How the stack names it: its class and offset.
  std::uint64_t name() const {
    return BucketWord{.image_class = home().image_class, .offset = home().offset}.word();
  }

  std::vector<std::byte> bytes() const;
  // None if these are not the bytes of a magazine at home in `name`, with places in a region
  // of `region_bytes`.
  static std::optional<Magazine> parse(std::uint64_t name, std::span<const std::byte> bytes,
                                       std::uint64_t region_bytes);
  // All places, in as few magazines as hold them, each leading to the one after it.
  static std::vector<Magazine> fill(std::vector<Place> places);
};

}  // namespace yonder::structures::internal
