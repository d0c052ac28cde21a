#include <algorithm>
#include <utility>

#include "yonder/remote/chain.h"
#include "yonder/structures/internal/table_core.h"

namespace yonder::structures::internal {

using fabric::LocalPiece;
using remote::Chain;

namespace {

constexpr std::size_t kMaxTogether = 64;
constexpr Duration kBufferPause = std::chrono::microseconds(2);
// Entries made or erased before the count in the table is told.
constexpr std::int64_t kReport = 32;
// Entries per bucket from which the table grows.
constexpr std::uint64_t kFill = 3;
// Changes of a kept bucket from which it is hot, and after how many of them they are halved.
constexpr std::uint32_t kHotChanges = 4;
constexpr std::uint64_t kChangesPerHalving = 8192;
// How often it is looked whether enough puts are held, and whether all have left.
constexpr Duration kLook = std::chrono::microseconds(10);
// Buckets split along with each change while it does.
constexpr std::uint64_t kHelp = 2;

void finish(Change& change) {
  change.done = true;
  if (change.waiter) std::exchange(change.waiter, nullptr).resume();
}

}  // namespace

Task<Result<TableVersion>> TableCore::change(Change change) {
  change.deadline = port_.deadline(change.deadline);
  change.hash = hash_of(change.key);
  if (!options_.consolidate) {
    Change* const alone = &change;
    co_await apply(std::span(&alone, 1));
    co_return change.result;
  }
  // By the bucket as we know it. If the table has grown meanwhile two lanes may lead to one
  // bucket: the swap of its word decides, as between two front ends.
  const std::uint64_t lane = lane_of(change.hash);
  if (options_.write_back > Duration(0) && change.kind == Change::Kind::kPut && is_hot(lane)) {
    while (pending_ >= kMaxPending) {
      if (change.deadline.passed(port_.clock().now())) {
        co_return fail(ErrorCode::kDeadlineExceeded, "hash table: too many puts are pending", pending_);
      }
      co_await port_.scheduler().sleep_for(kLook);
    }
    if (hold_back(change, lane)) co_return TableVersion{0};
  }
  const auto [found, first] = lanes_.try_emplace(lane);
  found->second.waiting.push_back(&change);
  found->second.is_awaited = true;
  if (!first) co_await InLane{change};
  // Either somebody else has done it, or it is our turn to lead.
  if (!change.done) co_await lead(lane);
  co_return change.result;
}

std::uint64_t TableCore::lane_of(std::uint64_t hash) const {
  return bucket_name(current_.log2, current_.bucket_of(hash));
}

bool TableCore::is_hot(std::uint64_t name) const {
  const auto found = kept_by_name_.find(name);
  return found != kept_by_name_.end() && found->second->changes >= kHotChanges;
}

bool TableCore::hold_back(const Change& change, std::uint64_t lane) {
  const auto [found, first] = lanes_.try_emplace(lane);
  Lane& own = found->second;
  // One that is led by others ends with them: what waits there is not ours to lead.
  if (!first && own.pending.empty()) return false;
  auto put = std::make_unique<PendingPut>();
  static_cast<Change&>(*put) = change;
  put->own_key.assign(change.key.begin(), change.key.end());
  put->own_value.assign(change.value.begin(), change.value.end());
  put->key = put->own_key;
  put->value = put->own_value;
  own.waiting.push_back(put.get());
  own.pending.push_back(std::move(put));
  ++pending_;
  if (first) port_.scheduler().spawn(drain(lane));
  return true;
}

Task<void> TableCore::drain(std::uint64_t lane) {
  // Others may join and wait in line; all of them are led from here.
  for (;;) {
    Lane& own = lanes_.at(lane);
    const Instant due = port_.clock().now() + options_.write_back;
    while (own.waiting.size() < options_.together && port_.clock().now() < due && flushing_ == 0 &&
           !own.is_awaited) {
      co_await port_.scheduler().sleep_for(std::min(options_.write_back, kLook));
    }
    const std::size_t count = std::min(own.waiting.size(), kMaxTogether);
    const std::vector<Change*> together(own.waiting.begin(),
                                        own.waiting.begin() + static_cast<std::ptrdiff_t>(count));
    own.waiting.erase(own.waiting.begin(), own.waiting.begin() + static_cast<std::ptrdiff_t>(count));
    own.is_awaited = false;
    co_await apply(together);
    std::vector<Change*> awaited;
    for (Change* change : together) {
      change->done = true;
      if (change->waiter) awaited.push_back(change);
      if (!change->waiter && !change->result && first_failure_)
        first_failure_ = std::unexpected(change->result.error());
    }
    pending_ -= std::erase_if(own.pending, [](const auto& put) { return put->done; });
    const bool ended = own.waiting.empty();
    if (ended) lanes_.erase(lane);
    for (Change* change : awaited) finish(*change);
    if (ended) co_return;
  }
}

const PendingPut* TableCore::pending(std::uint64_t hash, std::span<const std::byte> key) const {
  const auto lane = lanes_.find(lane_of(hash));
  if (lane == lanes_.end()) return nullptr;
  const auto& puts = lane->second.pending;
  const auto last = std::find_if(puts.rbegin(), puts.rend(),
                                 [&](const auto& put) { return std::ranges::equal(put->key, key); });
  return last == puts.rend() ? nullptr : last->get();
}

Task<Result<void>> TableCore::flush(Deadline deadline) {
  deadline = port_.deadline(deadline);
  // Nothing is held back while somebody waits for all of it.
  ++flushing_;
  const Result<void> left = co_await wait_until_left(deadline);
  --flushing_;
  if (!left) co_return left;
  co_return std::exchange(first_failure_, Result<void>());
}

Task<Result<void>> TableCore::wait_until_left(Deadline deadline) {
  while (pending_ != 0) {
    if (deadline.passed(port_.clock().now())) {
      co_return fail(ErrorCode::kDeadlineExceeded, "hash table: puts that have not left", pending_);
    }
    co_await port_.scheduler().sleep_for(kLook);
  }
  co_return Result<void>();
}

Task<void> TableCore::lead(std::uint64_t lane) {
  std::deque<Change*>& waiting = lanes_.at(lane).waiting;
  const std::size_t count = std::min(waiting.size(), kMaxTogether);
  std::vector<Change*> together(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(count));
  waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(count));
  co_await apply(together);
  // The next leader first: who is resumed may change this bucket again. (References into
  // the map stay good; the iterator may not.)
  Change* next = nullptr;
  std::deque<Change*>& after = lanes_.at(lane).waiting;
  if (after.empty()) {
    lanes_.erase(lane);
  } else {
    next = after.front();
  }
  for (Change* change : together) finish(*change);
  // Not done, so it leads.
  if (next != nullptr) std::exchange(next->waiter, nullptr).resume();
}

Task<void> TableCore::apply(std::span<Change* const> changes) {
  Deadline deadline = changes.front()->deadline;
  for (const Change* change : changes) deadline = Deadline::earlier(deadline, change->deadline);
  const auto all_fail = [&](const Error& why) {
    for (Change* change : changes) change->result = std::unexpected(why);
  };
  // What was last seen of a bucket need not be looked at again: if it is old the swap fails.
  // Only changes that come to nothing would not notice, so those are not believed.
  std::optional<Bucket> known = from_kept(changes.front()->hash);
  bool verified = false;
  for (std::uint32_t attempt = 0;; ++attempt) {
    Result<Bucket> bucket;
    if (known) {
      bucket = *std::exchange(known, std::nullopt);
    } else {
      bucket = co_await load(changes.front()->hash, deadline);
      verified = true;
    }
    if (!bucket) co_return all_fail(bucket.error());
    // A bucket that was split has only some of the changes.
    std::vector<Change*> here;
    for (Change* change : changes) {
      if (bucket->array.bucket_of(change->hash) == bucket->index) here.push_back(change);
    }
    const auto applied = co_await try_apply(here, *bucket, verified, deadline);
    if (!applied) co_return all_fail(applied.error());
    if (*applied) {
      std::vector<Change*> rest;
      for (Change* change : changes) {
        if (bucket->array.bucket_of(change->hash) != bucket->index) rest.push_back(change);
      }
      if (!rest.empty()) co_await apply(rest);
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
  for (;;) {
    if (const auto place = space_.try_take(image_class, shrinks)) co_return *place;
    const std::uint64_t bytes = std::max<std::uint64_t>(options_.chunk_bytes, kImageBytes[image_class]);
    const auto begin = co_await port_.async_fetch_add(at(TableShape::kSpaceOffset), bytes, deadline);
    if (!begin) co_return std::unexpected(begin.error());
    if (*begin > shape_.bytes || bytes > shape_.bytes - *begin) {
      co_return fail(ErrorCode::kOutOfMemory, "hash table: its memory is used up", shape_.bytes);
    }
    space_.add_chunk(*begin, *begin + bytes);
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

std::optional<Bucket> TableCore::from_kept(std::uint64_t hash) {
  Bucket bucket{.array = current_, .index = current_.bucket_of(hash)};
  const Kept* const image = kept(bucket.name());
  if (image == nullptr) return std::nullopt;
  bucket.word = image->word;
  bucket.bytes = image->bytes;
  bucket.image = ImageView::parse(bucket.name(), BucketWord::of(bucket.word).tag, bucket.bytes).value();
  return bucket;
}

void TableCore::keep(const Bucket& bucket, std::span<const std::byte> bytes) {
  if (!options_.consolidate || options_.kept_images == 0) return;
  if (stats_.swaps % kChangesPerHalving == 0) {
    for (Kept& image : kept_) image.changes /= 2;
  }
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
  ++image.changes;
}

// How often it was changed is still true.
void TableCore::forget(std::uint64_t name) {
  const auto found = kept_by_name_.find(name);
  if (found != kept_by_name_.end()) found->second->bytes.clear();
}

}  // namespace yonder::structures::internal
