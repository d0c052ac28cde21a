#pragma once
// Text for the word count: words of a made-up language whose frequencies follow Zipf's law.
//
// Concurrency: one thread per object. Lifetime: values.

#include <cstdint>
#include <span>
#include <string_view>

#include "yonder/base/distribution.h"
#include "yonder/base/prng.h"

namespace yonder::bench::heap {

inline constexpr std::size_t kMaxWordBytes = 10;

class Words {
 public:
  Words(std::uint64_t vocabulary, std::uint64_t seed)
      : ranks_({.items = vocabulary, .theta = 0.9}), random_(seed) {}

  // Fills a page with words of 3 to 10 letters, each followed by a space; no word crosses its end.
  void fill(std::span<char> page);

 private:
  Zipfian ranks_;
  Prng random_;
};

// FNV-1a.
constexpr std::uint64_t hash_of(std::string_view word) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char letter : word) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  return hash;
}

}  // namespace yonder::bench::heap
