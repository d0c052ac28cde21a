#pragma once
// A bucket's image: all entries of the bucket, as they were at one moment. Never changed
// once it is published; the next one is written elsewhere.
//
//   head: bucket, version, bytes, entries, tag, checksum
//   entries, each: version, key length, value length, key, value, padding to 8
//
// Concurrency: values. Lifetime: views live as long as the bytes they look at.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "yonder/base/result.h"

namespace yonder::structures::internal {

struct ImageHead {
  std::uint64_t bucket = 0;   // and the array's log2 in the high byte
  std::uint64_t version = 0;  // counts the changes of this bucket
  std::uint32_t bytes = 0;    // of the entries
  std::uint32_t entries = 0;
  std::uint64_t tag = 0;       // of the word that publishes it (table_layout.h)
  std::uint64_t checksum = 0;  // of all the rest
};
static_assert(sizeof(ImageHead) == 40);

struct EntryView {
  std::uint64_t version = 0;  // the bucket's when it was written
  std::span<const std::byte> key;
  std::span<const std::byte> value;
};

constexpr std::uint64_t bucket_name(std::uint32_t log2, std::uint64_t bucket) {
  return std::uint64_t{log2} << 56 | bucket;
}
constexpr std::uint64_t bucket_index(std::uint64_t name) { return name & ((std::uint64_t{1} << 56) - 1); }

// Looks at the bytes of an image.
class ImageView {
 public:
  ImageView() = default;
  // kCorrupt if these are not the bytes of the image of that bucket with that tag: then it
  // was replaced, and its space is used by another.
  static Result<ImageView> parse(std::uint64_t name, std::uint32_t tag, std::span<const std::byte> bytes);

  // One entry of such an image, without looking at the others twice. kNotFound, kCorrupt.
  static Result<EntryView> search(std::uint64_t name, std::uint32_t tag, std::span<const std::byte> bytes,
                                  std::span<const std::byte> key);

  std::uint64_t version() const { return version_; }
  std::span<const EntryView> entries() const { return entries_; }
  const EntryView* find(std::span<const std::byte> key) const;

 private:
  std::uint64_t version_ = 0;
  std::vector<EntryView> entries_;
};

// Makes the next image of a bucket from the present one.
class ImageBuilder {
 public:
  ImageBuilder(std::uint64_t name, std::uint64_t version) : name_(name), version_(version) {}

  std::uint64_t version() const { return version_; }
  // Bytes of an image of such entries.
  std::uint32_t bytes() const { return bytes_; }
  void add(const EntryView& entry);
  // Writes the image to the front of `out` and returns its bytes. Requires room (checked).
  std::span<std::byte> write(std::uint32_t tag, std::span<std::byte> out) const;

  static std::uint32_t entry_bytes(std::size_t key, std::size_t value) {
    return static_cast<std::uint32_t>((16 + key + value + 7) / 8 * 8);
  }

 private:
  const std::uint64_t name_;
  const std::uint64_t version_;
  std::uint32_t bytes_ = sizeof(ImageHead);
  std::vector<EntryView> entries_;
};

}  // namespace yonder::structures::internal
