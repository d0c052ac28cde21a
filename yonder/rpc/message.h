#pragma once
// Typed messages and methods.
//
// A message is one of two kinds. A *plain* one is a struct whose bytes are its
// encoding (fixed size, no padding, no pointers): one copy. A *coded* one writes
// and reads its fields and names an upper bound:
//
//   struct Ping { static constexpr bool kPlain = true; std::uint64_t number; };
//
//   struct Put {
//     static constexpr std::size_t kMaxBytes = 4 + kMaxName + 8;
//     std::string_view name; std::uint64_t value = 0;
//     void encode(Writer& out) const { out.string(name, kMaxName); out.put(value); }
//     void decode(Reader& in) { name = in.string(kMaxName); value = in.get<std::uint64_t>(); }
//   };
//
// A method names its number and its two messages:
//
//   struct PutMethod : MethodOf<7, Put, Empty> {};
//
// A decoded request may hold views into the received bytes: they live as long as
// the handler's call. A response is decoded into the caller's hands, after which
// its bytes are gone: it must own what it holds.
//
// Concurrency: pure functions.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>

#include "yonder/rpc/codec.h"
#include "yonder/rpc/wire.h"

namespace yonder::rpc {

template <typename T>
concept PlainMessage = T::kPlain && std::is_trivially_copyable_v<T> &&
                       std::has_unique_object_representations_v<T> && std::default_initializable<T>;

template <typename T>
concept CodedMessage =
    std::default_initializable<T> && requires(const T& from, T& to, Writer& out, Reader& in) {
      { T::kMaxBytes } -> std::convertible_to<std::size_t>;
      from.encode(out);
      to.decode(in);
    };

template <typename T>
concept Message = PlainMessage<T> || CodedMessage<T>;

// A message without content.
struct Empty {
  static constexpr std::size_t kMaxBytes = 0;
  void encode(Writer&) const {}
  void decode(Reader&) {}
};

template <std::uint16_t kNumber, typename RequestType, typename ResponseType>
struct MethodOf {
  static constexpr MethodId kMethod{kNumber};
  using Request = RequestType;
  using Response = ResponseType;
};

template <typename M>
concept Method = Message<typename M::Request> && Message<typename M::Response> && requires {
  { M::kMethod } -> std::convertible_to<MethodId>;
};

// No encoding of a T is longer.
template <Message T>
constexpr std::size_t max_bytes() {
  if constexpr (PlainMessage<T>) {
    return sizeof(T);
  } else {
    return T::kMaxBytes;
  }
}

// The length of the encoding; nullopt if it does not fit `out` or its own bound.
template <Message T>
std::optional<std::size_t> encode_message(const T& message, std::span<std::byte> out) {
  if constexpr (PlainMessage<T>) {
    if (out.size() < sizeof(T)) return std::nullopt;
    std::memcpy(out.data(), &message, sizeof(T));
    return sizeof(T);
  } else {
    Writer writer(out.size() < T::kMaxBytes ? out : out.first(T::kMaxBytes));
    message.encode(writer);
    if (!writer.ok()) return std::nullopt;
    return writer.size();
  }
}

// False if the bytes are not exactly one T; `message` is then unspecified.
template <Message T>
bool decode_message(std::span<const std::byte> bytes, T& message) {
  if constexpr (PlainMessage<T>) {
    if (bytes.size() != sizeof(T)) return false;
    std::memcpy(&message, bytes.data(), sizeof(T));
    return true;
  } else {
    if (bytes.size() > T::kMaxBytes) return false;
    Reader reader(bytes);
    message.decode(reader);
    return reader.finished();
  }
}

}  // namespace yonder::rpc
