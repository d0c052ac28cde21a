#include <algorithm>
#include <iterator>
#include <utility>

#include "yonder/remote/chain.h"
#include "yonder/structures/internal/table_core.h"

namespace yonder::structures::internal {

using fabric::LocalPiece;
using remote::Chain;

namespace {

// Of space that others gave back, looked through before more is reserved.
constexpr int kMaxMagazines = 4;
constexpr Duration kBufferPause = std::chrono::microseconds(2);
// Entries made or erased before the count in the table is told.
constexpr std::int64_t kReport = 32;
// Entries per bucket from which the table grows.
constexpr std::uint64_t kFill = 3;
// How many outcomes the share of kept images that are up to date remembers.
constexpr double kFreshMemory = 64;
// Buckets split along with each change while it does.
constexpr std::uint64_t kHelp = 2;

}  // namespace

Task<void> TableCore::apply(std::span<Change* const> changes, std::optional<Seen> seen) {
  Deadline deadline = changes.front()->deadline;
  for (const Change* change : changes) deadline = Deadline::earlier(deadline, change->deadline);
  const auto all_fail = [&](const Error& why) {
    for (Change* change : changes) change->result = std::unexpected(why);
  };
  const std::uint64_t hash = changes.front()->hash;
  const std::uint64_t kept_word = word_of_kept(hash);
  // What was last seen of a bucket need not be looked at again: if it is old the swap fails.
  // Only changes that come to nothing would not notice, so those are not believed.
  std::optional<Bucket> known;
  if (seen && seen->word != kept_word) {
    known = co_await from_seen(hash, *seen, deadline);
  } else if (seen || trusts_kept()) {
    known = from_kept(hash);
  }
  if (seen && kept_word != 0) learn_freshness(seen->word == kept_word);
  bool verified = false;
  for (std::uint32_t attempt = 0;; ++attempt) {
    Result<Bucket> bucket;
    if (known) {
      bucket = *std::exchange(known, std::nullopt);
    } else {
      bucket = co_await load(hash, deadline);
      if (bucket && attempt == 0 && kept_word != 0 && !seen) learn_freshness(bucket->word == kept_word);
      verified = true;
    }
    if (!bucket) co_return all_fail(bucket.error());
    // A bucket that was split has only some of the changes.
    std::vector<Change*> here;
    std::vector<Change*> rest;
    std::ranges::partition_copy(
        changes, std::back_inserter(here), std::back_inserter(rest),
        [&](const Change* change) { return bucket->array.bucket_of(change->hash) == bucket->index; });
    const bool believed = !verified;
    const auto applied = co_await try_apply(here, *bucket, verified, deadline);
    if (!applied) co_return all_fail(applied.error());
    if (believed && !seen) learn_freshness(*applied);
    if (*applied) {
      if (!rest.empty()) co_await apply(rest, std::nullopt);
      break;
    }
    ++stats_.lost_swaps;
    if (deadline.passed(port_.clock().now())) {
      co_return all_fail(fail(ErrorCode::kDeadlineExceeded, "hash table: a change").error());
    }
    if (attempt != 0) co_await pause(attempt);
    // The swap that failed has told the word of that moment, which lies within this call:
    // its image is as good as one that is looked up now, if it is still there.
    if (bucket->word == 0 || BucketWord::of(bucket->word).moved) continue;
    verified = (co_await load_image(*bucket, deadline)).has_value();
    if (verified) known = *std::move(bucket);
  }
  if (next_.offset != 0) (void)co_await help_growth(kHelp, deadline);
}

TableVersion TableCore::edit(const Bucket& bucket, std::span<Change* const> changes,
                             std::vector<EntryView>& entries) const {
  entries.assign(bucket.image.entries().begin(), bucket.image.entries().end());
  TableVersion version = bucket.image.version();
  for (Change* change : changes) {
    const auto found = std::ranges::find_if(
        entries, [&](const EntryView& entry) { return std::ranges::equal(entry.key, change->key); });
    const bool exists = found != entries.end();
    switch (change->kind) {
      case Change::Kind::kInsert:
        if (exists) {
          change->result = fail(ErrorCode::kAlreadyExists, "hash table: the key");
          continue;
        }
        break;
      case Change::Kind::kUpdateIf:
        if (exists && found->version != change->expected) {
          change->result = fail(ErrorCode::kVersionMismatch, "hash table: the entry", found->version);
          continue;
        }
        [[fallthrough]];
      case Change::Kind::kUpdate:
      case Change::Kind::kErase:
        if (!exists) {
          change->result = fail(ErrorCode::kNotFound, "hash table: the key");
          continue;
        }
        break;
      case Change::Kind::kPut:
        break;
    }
    change->result = ++version;
    if (change->kind == Change::Kind::kErase) {
      entries.erase(found);
    } else if (exists) {
      *found = {.version = version, .key = found->key, .value = change->value};
    } else {
      entries.push_back({.version = version, .key = change->key, .value = change->value});
    }
  }
  return version;
}

Task<Result<bool>> TableCore::try_apply(std::span<Change* const> changes, Bucket& bucket, bool verified,
                                        Deadline deadline) {
  std::vector<EntryView> entries;
  const TableVersion version = edit(bucket, changes, entries);
  if (version == bucket.image.version()) {  // Nothing to change.
    if (!verified) bucket.word = 0;         // It may be an old one, so it names nothing.
    co_return verified;
  }
  const auto more =
      static_cast<std::int64_t>(entries.size()) - static_cast<std::int64_t>(bucket.image.entries().size());
  ImageBuilder image(bucket.name(), version);
  for (const EntryView& entry : entries) image.add(entry);
  if (image.bytes() > kMaxImageBytes) {
    co_return fail(ErrorCode::kResourceExhausted, "hash table: the bucket is full", bucket.index);
  }
  const auto published = co_await publish(bucket, image, deadline);
  if (!published || !*published) co_return published;
  ++stats_.swaps;
  for (const Change* change : changes) stats_.changes += change->result.has_value() ? 1 : 0;
  co_await count_entries(more, deadline);
  co_await give_excess(deadline);
  co_return true;
}

Task<Result<remote::PooledBuffer>> TableCore::take_buffer(Deadline deadline) {
  for (;;) {
    if (auto buffer = pool_->try_take()) co_return *std::move(buffer);
    if (deadline.passed(port_.clock().now())) {
      co_return fail(ErrorCode::kResourceExhausted, "hash table: too many changes are under way");
    }
    co_await port_.scheduler().sleep_for(kBufferPause);
  }
}

Task<Result<Place>> TableCore::take_space(std::uint32_t image_class, bool shrinks, Deadline deadline) {
  bool is_full = false;
  for (int looked = 0;; ++looked) {
    if (const auto place = space_.try_take(image_class, shrinks)) co_return *place;
    // What others gave back first. It may be all too small, so new space comes after a few.
    if (looked < kMaxMagazines || is_full) {
      const auto taken = co_await take_given(deadline);
      if (!taken) co_return std::unexpected(taken.error());
      if (*taken) continue;
      if (is_full) co_return fail(ErrorCode::kOutOfMemory, "hash table: its memory is used up", shape_.bytes);
    }
    const std::uint64_t bytes = std::max<std::uint64_t>(options_.chunk_bytes, kImageBytes[image_class]);
    const auto begin = co_await port_.async_fetch_add(at(TableShape::kSpaceOffset), bytes, deadline);
    if (!begin) co_return std::unexpected(begin.error());
    is_full = *begin > shape_.bytes || bytes > shape_.bytes - *begin;
    if (!is_full) space_.add_chunk(*begin, *begin + bytes);
  }
}

Task<Result<bool>> TableCore::publish(Bucket& bucket, const ImageBuilder& image, Deadline deadline) {
  // A bucket that becomes smaller may use what is kept for that: a full table can be
  // emptied.
  const std::uint32_t needed = image_class(image.bytes());
  const bool shrinks = bucket.word != 0 && needed <= BucketWord::of(bucket.word).image_class;
  auto buffer = co_await take_buffer(deadline);
  if (!buffer) co_return std::unexpected(buffer.error());
  const auto place = co_await take_space(needed, shrinks, deadline);
  if (!place) co_return std::unexpected(place.error());
  const std::span<std::byte> bytes = image.write(place->tag, buffer->bytes());
  port_.queue().charge_copy(1, bytes.size());
  const BucketWord word{.tag = place->tag, .image_class = place->image_class, .offset = place->offset};
  Chain chain(port_);
  chain.write(LocalPiece::of(bytes, pool_->key()), at(place->offset));
  chain.compare_swap(at(bucket.word_offset()), bucket.word, word.word());
  const auto done = co_await chain.run(deadline);
  if (!done) {
    forget(bucket.name());
    // The place is not used again: the request may still be on its way.
    const bool swapped = chain.status(1) == ErrorCode::kOk && chain.value(1) == bucket.word;
    if (!swapped) co_return std::unexpected(done.error());
    // For bytes of which nobody knows whether they are there. If they are not, nobody could
    // read them, and the word goes back to those that are.
    Bucket now{.array = bucket.array, .index = bucket.index, .word = word.word()};
    const auto whole = co_await load_image(now, deadline);
    if (!whole) {
      if (whole.error() == ErrorCode::kCorrupt) {
        (void)co_await port_.async_compare_swap(at(bucket.word_offset()), word.word(), bucket.word, deadline);
      }
      co_return std::unexpected(done.error());
    }
  }
  if (chain.value(1) != bucket.word) {
    space_.give(*place);
    forget(bucket.name());
    bucket.word = chain.value(1);
    co_return false;
  }
  const BucketWord old = BucketWord::of(bucket.word);
  if (bucket.word != 0) space_.give(Place::of(old));
  bucket.word = word.word();
  keep(bucket, bytes);
  co_return true;
}

Task<void> TableCore::count_entries(std::int64_t more, Deadline deadline) {
  uncounted_ += more;
  if (uncounted_ < kReport && uncounted_ > -kReport) co_return;
  const std::int64_t report = std::exchange(uncounted_, 0);
  const auto before = co_await port_.async_fetch_add(at(TableShape::kCountOffset),
                                                     static_cast<std::uint64_t>(report), deadline);
  if (!before) co_return;  // The count is about right: hash_table.h.
  seen_count_ = *before + static_cast<std::uint64_t>(report);
  const auto count = static_cast<std::int64_t>(seen_count_);
  if (count > 0 && static_cast<std::uint64_t>(count) > kFill * current_.buckets() && next_.offset == 0 &&
      can_grow_) {
    (void)co_await begin_growth(deadline);
  }
}

// ---------------------------------------------------------------- kept images

const TableCore::Kept* TableCore::kept(std::uint64_t name) {
  const auto found = kept_by_name_.find(name);
  if (found == kept_by_name_.end() || found->second->bytes.empty()) return nullptr;
  kept_.splice(kept_.begin(), kept_, found->second);
  return &kept_.front();
}

std::uint64_t TableCore::word_of_kept(std::uint64_t hash) {
  const Kept* const image = kept(bucket_name(current_.log2, current_.bucket_of(hash)));
  return image == nullptr ? 0 : image->word;
}

std::optional<Bucket> TableCore::from_kept(std::uint64_t hash) {
  Bucket bucket{.array = current_, .index = current_.bucket_of(hash)};
  const Kept* const image = kept(bucket.name());
  if (image == nullptr) return std::nullopt;
  bucket.word = image->word;
  bucket.bytes = image->bytes;
  bucket.image = ImageView::parse(bucket.name(), BucketWord::of(bucket.word).tag, bucket.bytes).value();
  return bucket;
}

Task<std::optional<Bucket>> TableCore::from_seen(std::uint64_t hash, Seen seen, Deadline deadline) {
  if (!(seen.array == current_) || BucketWord::of(seen.word).moved) co_return std::nullopt;
  Bucket bucket{.array = seen.array, .index = seen.array.bucket_of(hash), .word = seen.word};
  if (bucket.word == 0) co_return bucket;
  const auto loaded = co_await load_image(bucket, deadline);
  if (!loaded) co_return std::nullopt;
  co_return bucket;
}

void TableCore::keep(const Bucket& bucket, std::span<const std::byte> bytes) {
  if (!options_.consolidate || options_.kept_images == 0) return;
  const auto found = kept_by_name_.find(bucket.name());
  if (found != kept_by_name_.end()) {
    kept_.splice(kept_.begin(), kept_, found->second);
  } else {
    if (kept_.size() >= options_.kept_images) {
      kept_by_name_.erase(kept_.back().name);
      kept_.pop_back();
    }
    kept_.push_front({.name = bucket.name()});
    kept_by_name_[bucket.name()] = kept_.begin();
  }
  Kept& image = kept_.front();
  image.word = bucket.word;
  image.bytes.assign(bytes.begin(), bytes.end());
}

// An image that is believed costs two requests if it is the latest, and five if it is not:
// the swap fails, and the image is read after all. Looking at the word first costs three
// or four. With p the share of those that are the latest: 5 - 3p < 4 - p from p = 1/2 on,
// which is as good as saying that at most two front ends change the same buckets.
bool TableCore::trusts_kept() const { return freshness_ > 0.5; }

void TableCore::learn_freshness(bool was_fresh) {
  freshness_ += ((was_fresh ? 1.0 : 0.0) - freshness_) / kFreshMemory;
}

// That it was changed here lately is still true.
void TableCore::forget(std::uint64_t name) {
  const auto found = kept_by_name_.find(name);
  if (found != kept_by_name_.end()) found->second->bytes.clear();
}

}  // namespace yonder::structures::internal
