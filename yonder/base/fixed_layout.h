#pragma once
// Fields of a message at fixed places: what preambles and handshakes are made of.
//
// Little endian on the wire, which is what our machines are. For messages with
// fields of varying length see rpc/codec.h.
//
// Concurrency: none of its own. Lifetime: nothing is kept.

#include <bit>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>

#include "yonder/base/check.h"

namespace yonder {

static_assert(std::endian::native == std::endian::little, "fields are copied as they lie in memory");

// Stores `value` at byte `at`. Requires room (checked in development builds): the
// caller's layout is fixed.
template <typename T>
  requires std::is_trivially_copyable_v<T>
void put_field(std::span<std::byte> out, std::size_t at, T value) {
  YONDER_DCHECK(at <= out.size() && sizeof value <= out.size() - at, "a field lies inside its message");
  std::memcpy(out.data() + at, &value, sizeof value);
}

// The field at byte `at`. Requires that it is there (checked in development
// builds): the caller has compared the length of what a peer sent.
template <typename T>
  requires std::is_trivially_copyable_v<T>
T get_field(std::span<const std::byte> in, std::size_t at) {
  YONDER_DCHECK(at <= in.size() && sizeof(T) <= in.size() - at, "a field lies inside its message");
  T value;
  std::memcpy(&value, in.data() + at, sizeof value);
  return value;
}

}  // namespace yonder
