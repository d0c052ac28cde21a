// Reads of whole frames: to find objects that are not where their pointers say.
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "yonder/client/internal/fetch.h"
#include "yonder/client/internal/session_core.h"

namespace yonder::client::internal {

using node::BlockEntry;
using node::HeaderWord;

namespace {

// Reads of frames leave together as long as their copies take no more than this.
constexpr std::size_t kScanBytes = 512 << 10;

// Corrects the pointer if its object is in the copy of a frame.
bool find_in_copy(std::span<const std::byte> frame, const SlotShape& shape, ObjectPtr& object) {
  for (std::uint32_t slot = 0; slot < shape.slots; ++slot) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, frame.data() + std::uint64_t{slot} * shape.slot_bytes, sizeof bits);
    if (!HeaderWord(bits).names(object.home(), object.id())) continue;
    object = object.with_slot(slot);
    return true;
  }
  return false;
}

}  // namespace

Task<Result<Translation>> SessionCore::look_up(node::BlockId block, Deadline deadline) {
  const auto address = map_->table_word(block);
  if (!address) co_return fail(ErrorCode::kNoSuchObject, "object pointer");
  std::uint64_t word = 0;
  const auto piece = fabric::LocalPiece::of(std::as_writable_bytes(std::span(&word, 1)));
  fabric::WorkRequest request{.op = fabric::Op::kRead, .local = {&piece, 1}, .remote = *address};
  const Instant before = clock().now();
  const Result<void> fetched = co_await Fetch(rpc_->endpoint(), read_budget_, {&request, 1}, deadline);
  if (!fetched) co_return std::unexpected(fetched.error());
  const Translation seen{.entry = BlockEntry(word), .seen = before};
  translations_.put(block, seen);
  co_return seen;
}

// The headers of a frame are as good as old: whoever goes to the slot that was found
// checks again. So one copy of the frame will do, torn or not.
Task<Result<bool>> SessionCore::scan(ObjectPtr& object, Translation seen, Deadline deadline) {
  ++stats_.scans;
  const SlotShape shape = map_->shape_of(object);
  const auto frame = map_->in_frame(seen.entry.frame(), 0, shape.frame_bytes);
  if (!seen.entry.valid() || seen.entry.size_class() != object.size_class() || !frame) co_return false;
  const Scratch copy = scratch_.take(shape.frame_bytes);
  const fabric::LocalPiece piece = copy.piece();
  fabric::WorkRequest request{.op = fabric::Op::kRead, .local = {&piece, 1}, .remote = *frame};
  const Result<void> fetched = co_await Fetch(rpc_->endpoint(), read_budget_, {&request, 1}, deadline);
  if (!fetched) co_return std::unexpected(fetched.error());
  co_return find_in_copy(copy.bytes(), shape, object);
}

Task<Result<void>> SessionCore::find_by_scan(ObjectPtr& object, Deadline deadline) {
  const Result<Translation> seen = co_await look_up(object.home(), deadline);
  if (!seen) co_return std::unexpected(seen.error());
  co_return outcome_of(co_await scan(object, *seen, deadline));
}

Task<void> SessionCore::scan_read_many(std::span<ReadItem> items, Deadline deadline) {
  deadline = or_default(deadline);
  // Whatever goes wrong here, each read finds out by itself.
  if (!is_outdated()) co_await find_by_scan_many(items, deadline);
  co_await direct_read_many(items, deadline);
}

Task<void> SessionCore::find_by_scan_many(std::span<ReadItem> items, Deadline deadline) {
  struct Wanted {
    ReadItem* item;
    std::uint64_t word = 0;
    fabric::LocalPiece piece;
  };
  std::vector<Wanted> wanted;
  for (ReadItem& item : items) {
    if (map_->check(item.object, item.out.size()) && map_->table_word(item.object.home()))
      wanted.push_back({.item = &item});
  }
  std::vector<fabric::WorkRequest> requests;
  for (Wanted& one : wanted) {
    one.piece = fabric::LocalPiece::of(std::as_writable_bytes(std::span(&one.word, 1)));
    requests.push_back({.op = fabric::Op::kRead,
                        .local = {&one.piece, 1},
                        .remote = *map_->table_word(one.item->object.home())});
  }
  if (requests.empty() || !co_await Fetch(rpc_->endpoint(), read_budget_, requests, deadline)) co_return;

  std::map<std::uint32_t, std::vector<ReadItem*>> by_frame;
  bool all_known = true;
  for (const Wanted& one : wanted) {
    const BlockEntry entry(one.word);
    if (!entry.valid() || entry.size_class() != one.item->object.size_class()) continue;
    by_frame[entry.frame().value()].push_back(one.item);
    all_known = all_known && map_->knows(entry.frame());
  }
  if (!all_known && !co_await learn_superblocks(deadline)) co_return;
  struct Copy {
    const std::vector<ReadItem*>* items;
    SlotShape shape;
    Scratch scratch;
    fabric::LocalPiece piece;
  };
  for (auto at = by_frame.begin(); at != by_frame.end();) {
    std::vector<Copy> copies;
    copies.reserve(by_frame.size());
    requests.clear();
    for (std::size_t bytes = 0; at != by_frame.end() && (copies.empty() || bytes < kScanBytes); ++at) {
      const SlotShape shape = map_->shape_of(at->second.front()->object);
      const auto frame = map_->in_frame(node::FrameId(at->first), 0, shape.frame_bytes);
      if (!frame) continue;
      ++stats_.scans;
      bytes += shape.frame_bytes;
      copies.push_back(
          {.items = &at->second, .shape = shape, .scratch = scratch_.take(shape.frame_bytes), .piece = {}});
      copies.back().piece = copies.back().scratch.piece();
      requests.push_back({.op = fabric::Op::kRead, .local = {&copies.back().piece, 1}, .remote = *frame});
    }
    if (requests.empty() || !co_await Fetch(rpc_->endpoint(), read_budget_, requests, deadline)) co_return;
    for (const Copy& copy : copies) {
      for (ReadItem* item : *copy.items) find_in_copy(copy.scratch.bytes(), copy.shape, item->object);
    }
  }
}

}  // namespace yonder::client::internal
