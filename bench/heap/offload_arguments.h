#pragma once
// What the functions of offload_functions.cc take: shared by the library that a node loads and
// the benchmark that calls them.
//
// Concurrency and lifetime: values. Pointers are of the offload space of the caller.

#include <array>
#include <cstddef>
#include <cstdint>

namespace yonder::bench::heap {

struct CopyRows {
  const std::uint64_t* from;
  std::uint64_t* to;
  std::uint64_t rows;
};

struct ShuffleRows {
  const std::uint64_t* from;
  const std::uint32_t* order;
  std::uint64_t* to;
  std::uint64_t rows;
};

// Elements of the web service. The result is a length (32 bits) and a reply for each; a
// result has 15 KiB at most, and a reply about 3.
struct Replies {
  static constexpr std::size_t kAtOnce = 4;
  std::array<const std::byte*, kAtOnce> elements;
  std::uint64_t count;
};

}  // namespace yonder::bench::heap
