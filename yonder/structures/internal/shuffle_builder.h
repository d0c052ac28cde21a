#pragma once
// Builds one batch of a shuffle in place, in the sender's copy of a ring.
//
// The sender keeps a mirror of each of its rings: a batch is put together at the
// place in the mirror that it will have in the ring, so positions and room are
// accounted for once, and a place may be used again when the receiver has consumed
// it. Packed entries are copied there; of gathered ones only header and directory
// are, and the request names the entries where the caller has them.
//
// Concurrency: one thread. Lifetime: the memory given to open() and, if gathering,
// the entries stay until the batch is written.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "yonder/fabric/types.h"
#include "yonder/structures/internal/shuffle_wire.h"

namespace yonder::structures::internal {

struct BatchBuilderOptions {
  bool gather = false;
  std::uint32_t max_entries = 16;
  std::uint32_t max_pieces = fabric::kMaxPieces;  // of one request
  fabric::LocalKey mirror_key;                    // of the memory given to open()
  fabric::LocalKey entry_key;                     // of the memory in which gathered entries lie
};

class BatchBuilder {
 public:
  explicit BatchBuilder(const BatchBuilderOptions& options);

  bool is_open() const { return !place_.empty(); }
  std::uint32_t count() const { return static_cast<std::uint32_t>(lengths_.size()); }

  // Starts a batch that will not grow beyond `place`. Requires that none is open.
  void open(std::span<std::byte> place);
  // Takes the entry if it still fits; always if it is the first and `place` has
  // bytes_for_first() of it. Requires is_open().
  bool try_add(const ShuffleEntry& entry);
  // Ends the batch and returns its pieces, valid until the next open(). Requires an
  // entry.
  std::span<const fabric::LocalPiece> seal(std::uint64_t ticket);

  // A batch of one entry takes so much.
  static std::uint64_t bytes_for_first(const ShuffleEntry& entry) {
    return batch_bytes(entry.key.size() + entry.value.size(), 1, false);
  }

 private:
  bool fits(const ShuffleEntry& entry) const;
  std::size_t pieces_for(const ShuffleEntry& entry) const;
  void pack(std::span<const std::byte> bytes);
  void gather(std::span<const std::byte> bytes);
  void put_directory(std::size_t at);

  const BatchBuilderOptions options_;
  std::span<std::byte> place_;
  std::uint64_t body_bytes_ = 0;
  bool mixed_ = false;
  std::vector<EntryLengths> lengths_;
  std::vector<fabric::LocalPiece> pieces_;
};

}  // namespace yonder::structures::internal
