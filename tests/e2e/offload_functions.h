#pragma once
// What the functions of offload_functions.cc take: shared by the library and the test that
// calls it, as a program and its library would.
//
// Concurrency and lifetime: values.

#include <cstdint>

namespace yonder::e2e {

struct Numbers {
  std::uint64_t* values;
  std::uint64_t count;
  std::uint64_t argument;
};

struct ListNode {
  std::uint64_t value;
  ListNode* next;
};

}  // namespace yonder::e2e
