#include "yonder/structures/internal/table_magazine.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>

namespace yonder::structures::internal {

namespace {

constexpr std::uint64_t kMagazineMagic = 0x656E697A6167614DULL;  // "Magazine": no bucket has such a name.

struct Head {
  std::uint64_t magic = kMagazineMagic;
  std::uint64_t next = 0;
  std::uint64_t count = 0;
  std::uint64_t checksum = 0;
};
static_assert(sizeof(Head) == Magazine::kHeadBytes);

std::uint64_t word_of(const Place& place) {
  return BucketWord{.tag = place.tag, .image_class = place.image_class, .offset = place.offset}.word();
}

std::uint64_t checksum_of(Head head, std::span<const std::byte> words) {
  head.checksum = XXH3_64bits(words.data(), words.size());
  return XXH3_64bits(&head, sizeof head);
}

}  // namespace

std::vector<std::byte> Magazine::bytes() const {
  std::vector<std::byte> out(kHeadBytes + 8 * places.size());
  const std::span<std::byte> words = std::span(out).subspan(kHeadBytes);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::uint64_t word = word_of(places[i]);
    std::memcpy(words.data() + 8 * i, &word, sizeof word);
  }
  Head head{.next = next, .count = places.size()};
  head.checksum = checksum_of(head, words);
  std::memcpy(out.data(), &head, sizeof head);
  return out;
}

std::optional<Magazine> Magazine::parse(std::uint64_t name, std::span<const std::byte> bytes,
                                        std::uint64_t region_bytes) {
  Head head;
  if (bytes.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.magic != kMagazineMagic || head.count == 0 || head.count > (bytes.size() - sizeof head) / 8)
    return std::nullopt;
  const std::span<const std::byte> words = bytes.subspan(sizeof head, 8 * head.count);
  if (head.checksum != checksum_of(head, words)) return std::nullopt;
  Magazine out{.next = head.next};
  for (std::size_t i = 0; i < head.count; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, words.data() + 8 * i, sizeof word);
    const BucketWord place = BucketWord::of(word);
    if (place.moved || !place.makes_sense(region_bytes)) return std::nullopt;
    out.places.push_back(Place::of(place));
  }
  if (out.name() != name) return std::nullopt;
  return out;
}

std::vector<Magazine> Magazine::fill(std::vector<Place> places) {
  std::ranges::sort(places, std::greater(), &Place::image_class);
  std::vector<Magazine> out;
  for (std::size_t first = 0; first < places.size();) {
    const std::size_t count = std::min(room(places[first].image_class), places.size() - first);
    const auto begin = places.begin() + static_cast<std::ptrdiff_t>(first);
    out.push_back({.places = {begin, begin + static_cast<std::ptrdiff_t>(count)}});
    first += count;
  }
  for (std::size_t i = 0; i + 1 < out.size(); ++i) out[i].next = out[i + 1].name();
  return out;
}

}  // namespace yonder::structures::internal
