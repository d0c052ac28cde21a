#include "yonder/structures/internal/shuffle_builder.h"

#include <algorithm>
#include <cstring>

#include "yonder/base/check.h"

namespace yonder::structures::internal {

BatchBuilder::BatchBuilder(const BatchBuilderOptions& options) : options_(options) {
  lengths_.reserve(options.max_entries);
  pieces_.reserve(options.max_pieces);
}

void BatchBuilder::open(std::span<std::byte> place) {
  YONDER_DCHECK(!is_open() && place.size() >= sizeof(BatchHeader), "one batch at a time, and room for it");
  place_ = place;
  body_bytes_ = 0;
  mixed_ = false;
  lengths_.clear();
  pieces_.assign(1, fabric::LocalPiece::of(place_.first(sizeof(BatchHeader)), options_.mirror_key));
}

std::size_t BatchBuilder::pieces_for(const ShuffleEntry& entry) const {
  // Header and directory are there anyway; key and value that lie together are one.
  const bool together = entry.key.data() + entry.key.size() == entry.value.data();
  const std::size_t own = together ? 1 : std::size_t{!entry.key.empty()} + std::size_t{!entry.value.empty()};
  return pieces_.size() + own + 1;
}

bool BatchBuilder::fits(const ShuffleEntry& entry) const {
  if (lengths_.size() == options_.max_entries) return false;
  const EntryLengths lengths{static_cast<std::uint32_t>(entry.key.size()),
                             static_cast<std::uint32_t>(entry.value.size())};
  const bool mixed = mixed_ || (!lengths_.empty() && !(lengths_.front() == lengths));
  const std::uint64_t bodies = body_bytes_ + entry.key.size() + entry.value.size();
  if (batch_bytes(bodies, lengths_.size() + 1, mixed) > place_.size()) return false;
  return !options_.gather || pieces_for(entry) <= options_.max_pieces;
}

bool BatchBuilder::try_add(const ShuffleEntry& entry) {
  YONDER_DCHECK(is_open(), "a batch is open");
  if (!fits(entry)) return false;
  const EntryLengths lengths{static_cast<std::uint32_t>(entry.key.size()),
                             static_cast<std::uint32_t>(entry.value.size())};
  mixed_ = mixed_ || (!lengths_.empty() && !(lengths_.front() == lengths));
  lengths_.push_back(lengths);
  if (options_.gather) {
    gather(entry.key);
    gather(entry.value);
  } else {
    pack(entry.key);
    pack(entry.value);
  }
  return true;
}

void BatchBuilder::pack(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;  // An empty span may have no address.
  std::memcpy(place_.data() + sizeof(BatchHeader) + body_bytes_, bytes.data(), bytes.size());
  body_bytes_ += bytes.size();
}

void BatchBuilder::gather(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  fabric::LocalPiece& last = pieces_.back();
  // Not the header, which lies in other memory under another key.
  if (pieces_.size() > 1 && last.data + last.length == bytes.data()) {
    last.length += static_cast<std::uint32_t>(bytes.size());
  } else {
    pieces_.push_back(fabric::LocalPiece::of(bytes, options_.entry_key));
  }
  body_bytes_ += bytes.size();
}

// The zeros and the directory that follow the bodies, at `at` of the place.
void BatchBuilder::put_directory(std::size_t at) {
  const std::uint64_t end_of_bodies = sizeof(BatchHeader) + body_bytes_;
  const std::uint64_t rest = batch_bytes(body_bytes_, lengths_.size(), mixed_) - end_of_bodies;
  std::memset(place_.data() + at, 0, rest);
  if (!mixed_) return;
  std::memcpy(place_.data() + at + (round_to(end_of_bodies, 8) - end_of_bodies), lengths_.data(),
              lengths_.size() * sizeof(EntryLengths));
}

std::span<const fabric::LocalPiece> BatchBuilder::seal(std::uint64_t ticket) {
  YONDER_DCHECK(is_open() && !lengths_.empty(), "a batch has entries");
  const BatchHeader header{
      .ticket = ticket,
      .bytes = static_cast<std::uint32_t>(batch_bytes(body_bytes_, lengths_.size(), mixed_)),
      .count = count(),
      .key_bytes = mixed_ ? kMixed : lengths_.front().key,
      .value_bytes = mixed_ ? kMixed : lengths_.front().value,
      .kind = BatchKind::kEntries,
      .body_bytes = static_cast<std::uint32_t>(body_bytes_)};
  std::memcpy(place_.data(), &header, sizeof header);
  const std::uint64_t rest = header.bytes - sizeof header - body_bytes_;
  if (options_.gather) {
    // The bodies' place in the mirror is unused: what follows them is put there.
    put_directory(sizeof header);
    if (rest != 0)
      pieces_.push_back(fabric::LocalPiece::of(place_.subspan(sizeof header, rest), options_.mirror_key));
  } else {
    put_directory(sizeof header + body_bytes_);
    pieces_.front().length = header.bytes;
  }
  place_ = {};
  return pieces_;
}

}  // namespace yonder::structures::internal
