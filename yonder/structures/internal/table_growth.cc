// Growth: T5 of hash_table.h.
#include <algorithm>
#include <array>
#include <utility>

#include "yonder/remote/chain.h"
#include "yonder/structures/internal/table_core.h"

namespace yonder::structures::internal {

using fabric::LocalPiece;
using remote::Chain;

namespace {

// Words looked at in one read when growth ends.
constexpr std::uint64_t kWordsPerRead = 2048;

}  // namespace

Task<Result<void>> TableCore::begin_growth(Deadline deadline) {
  if (const auto refreshed = co_await refresh(deadline); !refreshed) co_return refreshed;
  if (next_.offset != 0) co_return Result<void>();
  const ArrayWord current = current_;
  if (stale_next_ != 0) {
    // Somebody has died before clearing it.
    const auto cleared =
        co_await port_.async_compare_swap(at(TableShape::kNextOffset), stale_next_, 0, deadline);
    if (!cleared) co_return std::unexpected(cleared.error());
  }
  ArrayWord wanted{.log2 = current.log2 + 1};
  const auto space = co_await port_.async_fetch_add(at(TableShape::kSpaceOffset), wanted.bytes(), deadline);
  if (!space) co_return std::unexpected(space.error());
  if (*space > shape_.bytes || wanted.bytes() > shape_.bytes - *space) {
    can_grow_ = false;
    co_return fail(ErrorCode::kOutOfMemory, "hash table: no memory to grow", wanted.bytes());
  }
  wanted.offset = *space;
  const auto before =
      co_await port_.async_compare_swap(at(TableShape::kNextOffset), 0, wanted.word(), deadline);
  if (!before) co_return std::unexpected(before.error());
  // Somebody else was first: the space is as good for images.
  if (*before != 0) space_.add_chunk(*space, *space + wanted.bytes());
  if (const auto refreshed = co_await refresh(deadline); !refreshed) co_return refreshed;
  // Others may have grown it all the way since we looked: then nobody minds our array
  // (refresh), and it goes again.
  if (*before == 0 && current_.log2 >= wanted.log2) {
    const auto cleared =
        co_await port_.async_compare_swap(at(TableShape::kNextOffset), wanted.word(), 0, deadline);
    if (!cleared) co_return std::unexpected(cleared.error());
    co_return co_await refresh(deadline);
  }
  co_return Result<void>();
}

Task<Result<void>> TableCore::help_growth(std::uint64_t buckets, Deadline deadline) {
  const ArrayWord array = current_;
  const auto claimed = co_await port_.async_fetch_add(at(TableShape::kSplitsOffset), buckets, deadline);
  if (!claimed) co_return std::unexpected(claimed.error());
  for (std::uint64_t i = *claimed; i < *claimed + buckets; ++i) {
    if (next_.offset == 0 || !(current_ == array)) co_return Result<void>();
    if (const auto done = co_await split(i % array.buckets(), deadline); !done) co_return done;
  }
  // Whoever gets past the last bucket looks at all of them: others may have died with
  // theirs.
  const bool last = *claimed / array.buckets() != (*claimed + buckets) / array.buckets();
  if (last && next_.offset != 0 && current_ == array) co_return co_await finish_growth(deadline);
  co_return Result<void>();
}

Task<Result<void>> TableCore::split(std::uint64_t index, Deadline deadline) {
  for (std::uint32_t attempt = 0;; ++attempt) {
    if (next_.offset == 0) co_return Result<void>();
    const auto done = co_await try_split(index, deadline);
    if (!done) co_return std::unexpected(done.error());
    if (*done) co_return Result<void>();
    if (deadline.passed(port_.clock().now())) {
      co_return fail(ErrorCode::kDeadlineExceeded, "hash table: split a bucket", index);
    }
    co_await pause(attempt);
  }
}

Task<Result<bool>> TableCore::try_split(std::uint64_t index, Deadline deadline) {
  const ArrayWord array = current_;
  const ArrayWord next = next_;
  if (next.log2 != array.log2 + 1) co_return true;  // It has grown.
  const std::array<std::uint64_t, 2> children = {index, index + array.buckets()};
  std::array<std::uint64_t, 2> found = {};
  Chain look(port_);
  for (std::size_t i = 0; i < 2; ++i) {
    look.read(LocalPiece::of(std::as_bytes(std::span(&found[i], 1))), at(next.word_offset(children[i])));
  }
  if (const auto read = co_await look.run(deadline); !read) co_return std::unexpected(read.error());
  // After the new words: T5.
  const auto bucket = co_await load_at(array, index, deadline);
  if (!bucket) co_return std::unexpected(bucket.error());
  const BucketWord old = BucketWord::of(bucket->word);
  if (old.moved) co_return true;

  if (bucket->word != 0) {
    // Empty ones as well: a word that stays as it was would let a late splitter in.
    for (std::size_t i = 0; i < 2; ++i) {
      Bucket child{.array = next, .index = children[i], .word = found[i]};
      ImageBuilder image(child.name(), bucket->image.version() + 1);
      for (const EntryView& entry : bucket->image.entries()) {
        if (next.bucket_of(hash_of(entry.key)) == children[i]) image.add(entry);
      }
      const auto published = co_await publish(child, image, deadline);
      if (!published || !*published) co_return published;
    }
  }
  BucketWord moved = old;
  moved.moved = true;
  const auto before =
      co_await port_.async_compare_swap(at(bucket->word_offset()), bucket->word, moved.word(), deadline);
  if (!before) co_return std::unexpected(before.error());
  if (*before != bucket->word) co_return false;
  forget(bucket->name());
  if (bucket->word != 0) space_.give(Place::of(old));
  ++stats_.splits;
  co_return true;
}

Task<Result<void>> TableCore::finish_growth(Deadline deadline) {
  const ArrayWord array = current_;
  const ArrayWord next = next_;
  if (next.offset == 0) co_return Result<void>();
  std::vector<std::uint64_t> words(std::min(array.buckets(), kWordsPerRead));
  for (std::uint64_t first = 0; first < array.buckets(); first += words.size()) {
    const auto read = co_await port_.async_read(LocalPiece::of(std::as_bytes(std::span(words))),
                                                at(array.word_offset(first)), deadline);
    if (!read) co_return read;
    for (std::uint64_t i = 0; i < words.size(); ++i) {
      if (BucketWord::of(words[i]).moved) continue;
      if (!(current_ == array) || !(next_ == next)) co_return Result<void>();
      if (const auto done = co_await split(first + i, deadline); !done) co_return done;
    }
  }
  const auto before =
      co_await port_.async_compare_swap(at(TableShape::kCurrentOffset), array.word(), next.word(), deadline);
  if (!before) co_return std::unexpected(before.error());
  const auto cleared =
      co_await port_.async_compare_swap(at(TableShape::kNextOffset), next.word(), 0, deadline);
  if (!cleared) co_return std::unexpected(cleared.error());
  co_return co_await refresh(deadline);
}

Task<Result<void>> TableCore::grow(Deadline deadline) {
  deadline = port_.deadline(deadline);
  if (const auto refreshed = co_await refresh(deadline); !refreshed) co_return refreshed;
  const std::uint32_t before = current_.log2;
  while (current_.log2 == before) {
    if (const auto begun = co_await begin_growth(deadline); !begun) co_return begun;
    if (const auto ended = co_await finish_growth(deadline); !ended) co_return ended;
    if (deadline.passed(port_.clock().now()))
      co_return fail(ErrorCode::kDeadlineExceeded, "hash table: grow");
  }
  co_return Result<void>();
}

}  // namespace yonder::structures::internal
