#include "yonder/structures/internal/table_core.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "yonder/base/check.h"
#include "yonder/remote/chain.h"
#include "yonder/sync/shared_copy.h"

namespace yonder::structures::internal {

using fabric::LocalPiece;
using remote::Chain;

namespace {

// A read that was overtaken so often has met something that is no table.
constexpr std::uint32_t kMaxAttempts = 10'000;
constexpr std::uint32_t kNearFindsPerPoll = 256;
// Buckets of one step of a scan.
constexpr std::uint64_t kScanBuckets = 64;

template <typename T>
LocalPiece piece_of(T& value) {
  return LocalPiece::of(std::as_bytes(std::span(&value, 1)));
}

}  // namespace

TableCore::TableCore(remote::Port port, const RegionToken& token, const TableShape& shape,
                     const FrontEndOptions& options, std::unique_ptr<remote::BufferPool> pool)
    : port_(port),
      token_(token),
      shape_(shape),
      options_(options),
      pool_(std::move(pool)),
      io_(port_, *pool_),
      random_(shape.hash_seed ^ static_cast<std::uint64_t>(port.endpoint().id().value())),
      near_image_(kMaxImageBytes) {}

TableCore::~TableCore() {
  YONDER_CHECK(pending_ == 0 && background_ == 0, "flush() before a table with write-back goes");
}

Result<void> TableCore::check_key(std::span<const std::byte> key) {
  if (key.size() <= kMaxKeyBytes) return {};
  return fail(ErrorCode::kLengthInvalid, "hash table: bytes of a key", key.size());
}

Result<void> TableCore::check_value(std::span<const std::byte> value) {
  if (value.size() <= kMaxValueBytes) return {};
  return fail(ErrorCode::kLengthInvalid, "hash table: bytes of a value", value.size());
}

std::uint64_t TableCore::hash_of(std::span<const std::byte> key) const {
  return XXH3_64bits_withSeed(key.data(), key.size(), shape_.hash_seed);
}

Task<Result<void>> TableCore::refresh(Deadline deadline) {
  std::uint64_t next_word = 0;
  std::uint64_t current_word = 0;
  std::uint64_t count = 0;
  // The next array first. Growth sets it, then makes it the current one, then clears it:
  // read in this order, "none" means that the current one is the latest.
  Chain chain(port_);
  chain.read(piece_of(next_word), at(TableShape::kNextOffset));
  chain.read(piece_of(current_word), at(TableShape::kCurrentOffset));
  chain.read(piece_of(count), at(TableShape::kCountOffset));
  if (const auto read = co_await chain.run(deadline); !read) co_return read;
  const ArrayWord current = ArrayWord::of(current_word);
  const ArrayWord next = ArrayWord::of(next_word);
  const auto fits = [&](const ArrayWord& array) {
    return array.log2 <= 40 && array.offset >= TableShape::kSpaceBegin &&
           array.offset + array.bytes() <= shape_.bytes;
  };
  if (!fits(current) || (next.offset != 0 && !fits(next))) {
    co_return fail(ErrorCode::kCorrupt, "hash table: its arrays", current_word);
  }
  // An answer may be older than what another coroutine has seen.
  if (current.log2 >= current_.log2) {
    current_ = current;
    next_ = next.log2 > current.log2 ? next : ArrayWord{};
    stale_next_ = next.log2 > current.log2 ? 0 : next_word;
  }
  seen_count_ = count;
  co_return Result<void>();
}

Task<void> TableCore::pause(std::uint32_t attempt) {
  const std::uint64_t longest = std::uint64_t{500} << std::min(attempt, 10u);
  co_await port_.scheduler().sleep_for(Duration(1 + random_.below(longest)));
}

Result<void> TableCore::check_word(const Bucket& bucket) const {
  if (BucketWord::of(bucket.word).makes_sense(shape_.bytes)) return {};
  return fail(ErrorCode::kCorrupt, "hash table: the word of a bucket", bucket.index);
}

Task<Result<void>> TableCore::load_image(Bucket& bucket, Deadline deadline) {
  if (const auto sound = check_word(bucket); !sound) co_return sound;
  const BucketWord word = BucketWord::of(bucket.word);
  bucket.bytes.resize(kImageBytes[word.image_class]);
  const auto read = co_await port_.async_read(LocalPiece::of(bucket.bytes), at(word.offset), deadline);
  if (!read) co_return read;
  auto image = ImageView::parse(bucket.name(), word.tag, bucket.bytes);
  if (!image) co_return std::unexpected(image.error());
  bucket.image = *std::move(image);
  co_return Result<void>();
}

Task<Result<Bucket>> TableCore::load_at(ArrayWord array, std::uint64_t index, Deadline deadline) {
  Bucket bucket{.array = array, .index = index};
  for (std::uint32_t attempt = 0; attempt < kMaxAttempts; ++attempt) {
    const auto read = co_await port_.async_read(piece_of(bucket.word), at(bucket.word_offset()), deadline);
    if (!read) co_return std::unexpected(read.error());
    if (bucket.word == 0 || BucketWord::of(bucket.word).moved) co_return bucket;
    if (const Kept* image = kept(bucket.name()); image != nullptr && image->word == bucket.word) {
      bucket.bytes = image->bytes;
      bucket.image = ImageView::parse(bucket.name(), BucketWord::of(bucket.word).tag, bucket.bytes).value();
      co_return bucket;
    }
    const auto loaded = co_await load_image(bucket, deadline);
    if (loaded) co_return bucket;
    if (loaded.error() != ErrorCode::kCorrupt) co_return std::unexpected(loaded.error());
    ++stats_.reread;
    if (deadline.passed(port_.clock().now())) break;
    if (attempt > 2) co_await pause(attempt);
  }
  co_return fail(ErrorCode::kCorrupt, "hash table: a bucket whose image is always another", index);
}

Task<Result<ArrayWord>> TableCore::after(ArrayWord array, Deadline deadline) {
  if (next_.log2 == array.log2 + 1) co_return next_;
  const auto refreshed = co_await refresh(deadline);
  if (!refreshed) co_return std::unexpected(refreshed.error());
  if (next_.log2 == array.log2 + 1) co_return next_;
  if (current_.log2 > array.log2) co_return current_;
  co_return fail(ErrorCode::kCorrupt, "hash table: moved, but nowhere", array.log2);
}

Task<Result<Bucket>> TableCore::load(std::uint64_t hash, Deadline deadline) {
  ArrayWord array = current_;
  for (;;) {
    auto bucket = co_await load_at(array, array.bucket_of(hash), deadline);
    if (!bucket || !BucketWord::of(bucket->word).moved) co_return bucket;
    const auto next = co_await after(array, deadline);
    if (!next) co_return std::unexpected(next.error());
    array = *next;  // Of more buckets each time, so this ends.
  }
}

std::optional<Result<TableVersion>> TableCore::find_near(std::span<const std::byte> key,
                                                         std::vector<std::byte>& value) {
  if (pending_ != 0) return std::nullopt;
  // A connection that was lost is noticed only by polling, and memory that is nobody's any
  // more must not be read for ever.
  if (++near_finds_ % kNearFindsPerPoll == 0) port_.queue().poll({});
  if (!window_ || !window_->is_mapped()) {
    window_ = port_.endpoint().window(token_.key);
    if (!window_) return std::nullopt;
  }
  Bucket bucket{.array = current_, .index = current_.bucket_of(hash_of(key))};
  if (bucket.word_offset() + 8 > window_->length()) return std::nullopt;
  if (!window_->load_word(bucket.word_offset(), bucket.word)) return std::nullopt;
  if (bucket.word == 0) return fail(ErrorCode::kNotFound, "hash table: the key");
  const BucketWord word = BucketWord::of(bucket.word);
  if (word.moved || !word.makes_sense(std::min(shape_.bytes, window_->length()))) return std::nullopt;
  const std::span<std::byte> image = std::span(near_image_).first(kImageBytes[word.image_class]);
  const bool counts = window_->look(
      [&](const std::byte* base) { sync::shared_copy(image.data(), base + word.offset, image.size()); });
  if (!counts) return std::nullopt;
  const auto entry = ImageView::search(bucket.name(), word.tag, image, key);
  if (!entry) {
    if (entry.error() == ErrorCode::kNotFound) return std::unexpected(entry.error());
    return std::nullopt;
  }
  value.assign(entry->value.begin(), entry->value.end());
  return entry->version;
}

Task<Result<TableVersion>> TableCore::find(std::span<const std::byte> key, std::vector<std::byte>& value,
                                           Deadline deadline) {
  if (const auto good = check_key(key); !good) co_return std::unexpected(good.error());
  deadline = port_.deadline(deadline);
  const std::uint64_t hash = hash_of(key);
  if (const PendingPut* put = pending(hash, key); put != nullptr) {
    value = put->own_value;
    co_return TableVersion{0};
  }
  const auto bucket = co_await load(hash, deadline);
  if (!bucket) co_return std::unexpected(bucket.error());
  const EntryView* entry = bucket->image.find(key);
  if (entry == nullptr) co_return fail(ErrorCode::kNotFound, "hash table: the key");
  value.assign(entry->value.begin(), entry->value.end());
  co_return entry->version;
}

// Words of all, then images of all; what was moved or replaced meanwhile goes the usual way.
Task<void> TableCore::find_many(std::span<FindItem> items, Deadline deadline) {
  deadline = port_.deadline(deadline);
  std::vector<Bucket> buckets(items.size());
  std::vector<remote::VectorPiece> pieces;
  for (std::size_t i = 0; i < items.size(); ++i) {
    buckets[i].array = current_;
    buckets[i].index = current_.bucket_of(hash_of(items[i].key));
    pieces.push_back({.local = piece_of(buckets[i].word), .remote = at(buckets[i].word_offset())});
  }
  auto done = co_await io_.async_read(pieces, remote::Strategy::kDoorbell, deadline);
  pieces.clear();
  for (Bucket& bucket : buckets) {
    const BucketWord word = BucketWord::of(bucket.word);
    if (!done || bucket.word == 0 || word.moved || !check_word(bucket)) continue;
    bucket.bytes.resize(kImageBytes[word.image_class]);
    pieces.push_back({.local = LocalPiece::of(bucket.bytes), .remote = at(word.offset)});
  }
  if (done) done = co_await io_.async_read(pieces, remote::Strategy::kDoorbell, deadline);
  for (std::size_t i = 0; i < items.size(); ++i) {
    FindItem& item = items[i];
    if (const auto good = check_key(item.key); !good) {
      item.result = std::unexpected(good.error());
      continue;
    }
    if (done && !buckets[i].bytes.empty() && pending_ == 0) {
      const auto entry = ImageView::search(buckets[i].name(), BucketWord::of(buckets[i].word).tag,
                                           buckets[i].bytes, item.key);
      if (entry) {
        item.value.assign(entry->value.begin(), entry->value.end());
        item.result = entry->version;
        continue;
      }
      if (entry.error() == ErrorCode::kNotFound) {
        item.result = std::unexpected(entry.error());
        continue;
      }
    }
    item.result = co_await find(item.key, item.value, deadline);
  }
}

Task<Result<void>> TableCore::collect(ArrayWord array, std::uint64_t index, std::vector<ScannedEntry>& out,
                                      Deadline deadline) {
  const auto bucket = co_await load_at(array, index, deadline);
  if (!bucket) co_return std::unexpected(bucket.error());
  if (!BucketWord::of(bucket->word).moved) {
    for (const EntryView& entry : bucket->image.entries()) {
      out.push_back({.key = {entry.key.begin(), entry.key.end()},
                     .value = {entry.value.begin(), entry.value.end()},
                     .version = entry.version});
    }
    co_return Result<void>();
  }
  const auto next = co_await after(array, deadline);
  if (!next) co_return std::unexpected(next.error());
  // All buckets of the larger array that this one's entries can be in.
  for (std::uint64_t child = index; child < next->buckets(); child += array.buckets()) {
    const auto collected = co_await collect(*next, child, out, deadline);
    if (!collected) co_return collected;
  }
  co_return Result<void>();
}

Task<Result<std::vector<ScannedEntry>>> TableCore::scan(ScanCursor& cursor, Deadline deadline) {
  deadline = port_.deadline(deadline);
  std::vector<ScannedEntry> out;
  if (cursor.log2 == 0) cursor = {.log2 = current_.log2};
  // The cursor counts in buckets of the array it began with. Whatever the table has grown
  // to, the entries of such a bucket are in those that it was split into.
  const ArrayWord array = current_;
  if (cursor.log2 > array.log2)
    co_return fail(ErrorCode::kInvalidArgument, "scan: a cursor of another table");
  const std::uint64_t buckets = std::uint64_t{1} << cursor.log2;
  const std::uint64_t end = std::min(cursor.bucket + kScanBuckets, buckets);
  for (std::uint64_t bucket = cursor.bucket; bucket < end; ++bucket) {
    for (std::uint64_t child = bucket; child < array.buckets(); child += buckets) {
      const auto collected = co_await collect(array, child, out, deadline);
      if (!collected) co_return std::unexpected(collected.error());
    }
  }
  cursor.bucket = end;
  cursor.done = end == buckets;
  co_return out;
}

Task<Result<std::uint64_t>> TableCore::size(Deadline deadline) {
  const auto refreshed = co_await refresh(deadline);
  if (!refreshed) co_return std::unexpected(refreshed.error());
  const std::int64_t count = static_cast<std::int64_t>(seen_count_) + uncounted_;
  co_return static_cast<std::uint64_t>(std::max<std::int64_t>(count, 0));
}

}  // namespace yonder::structures::internal
