#pragma once
// How containers with keys take a key, hash it, compare it and keep it.
//
// A key is asked for as a View: a reference to the key itself, or, for text, a std::string_view,
// so that looking something up allocates nothing. Specialise it for key types of your own that
// have something cheaper than themselves to be found by.
//
// Concurrency and lifetime: functions of values.

#include <cstdint>
#include <functional>
#include <string_view>

#include "yonder/base/result.h"
#include "yonder/heap/string.h"

namespace yonder::heap {

template <typename K>
struct KeyTraits {
  using View = const K&;
  static std::uint64_t hash(View key) { return std::hash<K>{}(key); }
  static bool equal(const K& kept, View key) { return kept == key; }
  // What is kept. Errors: those of making it.
  static Result<K> keep(View key) { return key; }
};

namespace internal {
// All bits of the result depend on all of the key's hash, which may be the key itself.
constexpr std::uint64_t mixed_hash(std::uint64_t hash) {
  hash = (hash ^ (hash >> 32)) * 0xd6e8feb86659fd93;
  hash = (hash ^ (hash >> 32)) * 0xd6e8feb86659fd93;
  return hash ^ (hash >> 32);
}
}  // namespace internal

template <>
struct KeyTraits<string> {
  using View = std::string_view;
  static std::uint64_t hash(View key) { return std::hash<std::string_view>{}(key); }
  static bool equal(const string& kept, View key) { return kept == key; }
  static Result<string> keep(View key) { return string::try_make(key); }
};

}  // namespace yonder::heap
