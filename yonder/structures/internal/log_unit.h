#pragma once
// The bytes of a unit: the records of one append, with their lengths and a checksum.
//
// Concurrency: pure functions on their arguments. Lifetime: borrows everything.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/fabric/types.h"
#include "yonder/structures/internal/log_layout.h"

namespace yonder::structures::internal {

using RecordSpans = std::span<const std::span<const std::byte>>;

class UnitWriter {
 public:
  // `bytes`: of lengths and records. Requires that the whole unit fits `buffer` (checked).
  UnitWriter(std::uint64_t slot, std::uint32_t bytes, RecordSpans records, std::span<std::byte> buffer);

  // The whole unit, copied into the buffer.
  std::span<std::byte> pack();
  // The unit as pieces: the buffer with head and lengths, then the records where they
  // are. Returns how many; requires room for one more than there are records (checked).
  std::size_t gather(std::span<fabric::LocalPiece> pieces, fabric::LocalKey buffer_key,
                     fabric::LocalKey record_key);

 private:
  // Writes head and lengths and returns their bytes.
  std::size_t write_front();

  const std::uint64_t slot_;
  const std::uint32_t bytes_;
  const RecordSpans records_;
  const std::span<std::byte> buffer_;
};

// Finds the records in `unit`, which is what a unit's slots hold. kCorrupt if these are
// not the bytes of a whole unit at `slot`.
Result<void> parse_unit(std::uint64_t slot, std::span<const std::byte> unit,
                        std::vector<std::span<const std::byte>>& records);

}  // namespace yonder::structures::internal
