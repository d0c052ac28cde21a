// Space that goes from one front end to the others: T6 of hash_table.h, table_magazine.h.
#include <algorithm>
#include <utility>

#include "yonder/structures/internal/table_core.h"
#include "yonder/structures/internal/table_magazine.h"

namespace yonder::structures::internal {

using fabric::LocalPiece;

namespace {

// Tries to pop before new space is reserved instead: others pop as well, so there is little.
constexpr int kMaxTries = 8;

// The top after a change of it: never a word it was before.
std::uint64_t next_top(std::uint64_t seen, std::uint64_t magazine) {
  const BucketWord below = BucketWord::of(magazine);
  return BucketWord{.tag = (BucketWord::of(seen).tag + 1) % BucketWord::kTags,
                    .image_class = below.image_class,
                    .offset = below.offset}
      .word();
}

// Without the tag: a magazine's name, 0 for none.
std::uint64_t name_in(std::uint64_t top) {
  const BucketWord word = BucketWord::of(top);
  return BucketWord{.image_class = word.image_class, .offset = word.offset}.word();
}

}  // namespace

Task<Result<void>> TableCore::give_back(std::vector<Place> places, Deadline deadline) {
  if (places.empty()) co_return Result<void>();
  std::vector<Magazine> magazines = Magazine::fill(std::move(places));
  const auto seen = co_await port_.async_load(at(TableShape::kFreeOffset), deadline);
  if (!seen) co_return std::unexpected(seen.error());
  magazines.back().next = name_in(*seen);
  std::vector<std::vector<std::byte>> bytes;
  for (const Magazine& magazine : magazines) bytes.push_back(magazine.bytes());
  std::vector<remote::VectorPiece> pieces;
  for (std::size_t i = 0; i < magazines.size(); ++i) {
    pieces.push_back({.local = LocalPiece::of(bytes[i]), .remote = at(magazines[i].home().offset)});
  }
  const Result<void> written = co_await io_.async_write(pieces, remote::Strategy::kDoorbell, deadline);
  if (!written) co_return written;
  // An error from here on: nobody knows whether they are on the stack. They are not ours any more.
  std::uint64_t top = *seen;
  for (std::uint32_t attempt = 0;; ++attempt) {
    const auto before = co_await port_.async_compare_swap(at(TableShape::kFreeOffset), top,
                                                          next_top(top, magazines.front().name()), deadline);
    if (!before) co_return std::unexpected(before.error());
    if (*before == top) co_return Result<void>();
    if (deadline.passed(port_.clock().now())) {
      co_return fail(ErrorCode::kDeadlineExceeded, "hash table: give space back");
    }
    top = *before;
    magazines.back().next = name_in(top);
    const std::vector<std::byte> last = magazines.back().bytes();
    const Result<void> again =
        co_await port_.async_write(LocalPiece::of(last), at(magazines.back().home().offset), deadline);
    if (!again) co_return again;
    if (attempt != 0) co_await pause(attempt);
  }
}

Task<Result<bool>> TableCore::take_given(Deadline deadline) {
  for (int attempt = 0; attempt < kMaxTries; ++attempt) {
    const auto top = co_await port_.async_load(at(TableShape::kFreeOffset), deadline);
    if (!top) co_return std::unexpected(top.error());
    const BucketWord word = BucketWord::of(*top);
    if (word.offset == 0) co_return false;
    if (!word.makes_sense(shape_.bytes)) {
      co_return fail(ErrorCode::kCorrupt, "hash table: the stack of free space", *top);
    }
    std::vector<std::byte> bytes(kImageBytes[word.image_class]);
    const Result<void> read = co_await port_.async_read(LocalPiece::of(bytes), at(word.offset), deadline);
    if (!read) co_return std::unexpected(read.error());
    const auto magazine = Magazine::parse(name_in(*top), bytes, shape_.bytes);
    if (!magazine) continue;  // It was taken, and used, between the two looks.
    const auto before = co_await port_.async_compare_swap(at(TableShape::kFreeOffset), *top,
                                                          next_top(*top, magazine->next), deadline);
    if (!before) co_return std::unexpected(before.error());
    if (*before != *top) continue;
    for (const Place& place : magazine->places) space_.accept(place);
    co_return true;
  }
  co_return false;
}

Task<void> TableCore::give_excess(Deadline deadline) {
  if (space_.free_bytes() <= options_.max_free_bytes) co_return;
  std::vector<Place> places = space_.release(space_.free_bytes() - options_.max_free_bytes / 2);
  // What is lost when it fails is space, and who made the change need not know.
  (void)co_await give_back(std::move(places), deadline);
}

Task<Result<void>> TableCore::close(Deadline deadline) {
  deadline = port_.deadline(deadline);
  const Result<void> flushed = co_await flush(deadline);
  if (!flushed) co_return flushed;
  std::vector<Place> places = space_.release_all();
  const Result<void> given = co_await give_back(std::move(places), deadline);
  co_return given;
}

}  // namespace yonder::structures::internal
