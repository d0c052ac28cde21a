#include "yonder/structures/internal/bucket_image.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "yonder/base/check.h"

namespace yonder::structures::internal {

namespace {

struct EntryHead {
  std::uint64_t version = 0;
  std::uint32_t key_bytes = 0;
  std::uint32_t value_bytes = 0;
};
static_assert(sizeof(EntryHead) == 16);

std::uint64_t checksum_of(const ImageHead& head, std::span<const std::byte> entries) {
  const std::uint64_t seed = XXH3_64bits(&head, offsetof(ImageHead, checksum));
  return XXH3_64bits_withSeed(entries.data(), entries.size(), seed);
}

}  // namespace

namespace {

// Checks the head and everything that is under its checksum; then calls see(entry) for each
// entry until that returns false.
template <typename See>
Result<ImageHead> walk(std::uint64_t name, std::uint32_t tag, std::span<const std::byte> bytes, See&& see) {
  ImageHead head;
  const auto damaged = [&] { return fail(ErrorCode::kCorrupt, "hash table: the image of a bucket", name); };
  if (bytes.size() < sizeof head) return damaged();
  std::memcpy(&head, bytes.data(), sizeof head);
  std::span<const std::byte> rest = bytes.subspan(sizeof head);
  if (head.bucket != name || head.tag != tag || head.bytes > rest.size() ||
      head.entries > head.bytes / sizeof(EntryHead)) {
    return damaged();
  }
  rest = rest.first(head.bytes);
  if (checksum_of(head, rest) != head.checksum) return damaged();
  for (std::uint32_t i = 0; i < head.entries; ++i) {
    EntryHead entry;
    if (rest.size() < sizeof entry) return damaged();
    std::memcpy(&entry, rest.data(), sizeof entry);
    const std::size_t whole = ImageBuilder::entry_bytes(entry.key_bytes, entry.value_bytes);
    // Each by itself first: their sum is a peer's.
    if (entry.key_bytes > rest.size() || entry.value_bytes > rest.size() || whole > rest.size())
      return damaged();
    if (!see(EntryView{.version = entry.version,
                       .key = rest.subspan(sizeof entry, entry.key_bytes),
                       .value = rest.subspan(sizeof entry + entry.key_bytes, entry.value_bytes)})) {
      break;
    }
    rest = rest.subspan(whole);
  }
  return head;
}

}  // namespace

Result<ImageView> ImageView::parse(std::uint64_t name, std::uint32_t tag, std::span<const std::byte> bytes) {
  ImageView view;
  YONDER_TRY(head, walk(name, tag, bytes, [&](const EntryView& entry) {
               view.entries_.push_back(entry);
               return true;
             }));
  view.version_ = head.version;
  return view;
}

Result<EntryView> ImageView::search(std::uint64_t name, std::uint32_t tag, std::span<const std::byte> bytes,
                                    std::span<const std::byte> key) {
  Result<EntryView> found = fail(ErrorCode::kNotFound, "hash table: the key");
  YONDER_TRY_VOID(walk(name, tag, bytes, [&](const EntryView& entry) {
    if (!std::ranges::equal(entry.key, key)) return true;
    found = entry;
    return false;
  }));
  return found;
}

const EntryView* ImageView::find(std::span<const std::byte> key) const {
  const auto found = std::ranges::find_if(
      entries_, [&](const EntryView& entry) { return std::ranges::equal(entry.key, key); });
  return found == entries_.end() ? nullptr : &*found;
}

void ImageBuilder::add(const EntryView& entry) {
  entries_.push_back(entry);
  bytes_ += entry_bytes(entry.key.size(), entry.value.size());
}

std::span<std::byte> ImageBuilder::write(std::uint32_t tag, std::span<std::byte> out) const {
  YONDER_CHECK(bytes_ <= out.size(), "an image fits its buffer");
  out = out.first(bytes_);
  std::byte* at = out.data() + sizeof(ImageHead);
  const auto put = [&at](const void* from, std::size_t bytes) {
    if (bytes != 0) std::memcpy(at, from, bytes);
    at += bytes;
  };
  for (const EntryView& entry : entries_) {
    const EntryHead head{.version = entry.version,
                         .key_bytes = static_cast<std::uint32_t>(entry.key.size()),
                         .value_bytes = static_cast<std::uint32_t>(entry.value.size())};
    std::byte* const begin = at;
    put(&head, sizeof head);
    put(entry.key.data(), entry.key.size());
    put(entry.value.data(), entry.value.size());
    std::byte* const end = begin + entry_bytes(entry.key.size(), entry.value.size());
    std::fill(at, end, std::byte{0});
    at = end;
  }
  ImageHead head{.bucket = name_,
                 .version = version_,
                 .bytes = bytes_ - static_cast<std::uint32_t>(sizeof(ImageHead)),
                 .entries = static_cast<std::uint32_t>(entries_.size()),
                 .tag = tag};
  head.checksum = checksum_of(head, out.subspan(sizeof head));
  std::memcpy(out.data(), &head, sizeof head);
  return out;
}

}  // namespace yonder::structures::internal
