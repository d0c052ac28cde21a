#pragma once
// Writer and Reader: how messages become bytes and come back.
//
//   void encode(Writer& out) const { out.put(node); out.string(name, kMaxName); }
//   void decode(Reader& in)        { node = in.get<NodeId>(); name = in.string(kMaxName); }
//
// Integers are little endian and of fixed width; strings, byte strings and arrays
// start with a 32-bit length and have a limit that both sides name. Neither class
// allocates, and a Reader never believes a length before it has seen that many
// bytes. Errors are sticky: after the first one a Writer writes nothing and a
// Reader returns zeros and empty spans, so that messages are written without a
// check per field; whoever started looks at ok() or finished() once.
//
// Concurrency: one thread. Lifetime: both borrow the bytes they were given; views
// that a Reader returns are as old as those.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

#include "yonder/base/id.h"
#include "yonder/base/time.h"

namespace yonder::rpc {

namespace internal {

template <typename T>
struct IsStrongId : std::false_type {};
template <typename Tag, typename Rep>
struct IsStrongId<StrongId<Tag, Rep>> : std::true_type {};

}  // namespace internal

// What one put() or get() moves: an integer, bool, enum, strong id, amount of
// bytes or duration.
template <typename T>
concept Scalar = std::integral<T> || std::is_enum_v<T> || internal::IsStrongId<T>::value ||
                 std::same_as<T, Bytes> || std::same_as<T, Duration>;

class Writer {
 public:
  explicit Writer(std::span<std::byte> out)
      : begin_(out.data()), next_(out.data()), end_(next_ + out.size()) {}

  template <Scalar T>
  void put(T value) {
    if constexpr (std::is_enum_v<T>) {
      raw(static_cast<std::underlying_type_t<T>>(value));
    } else if constexpr (internal::IsStrongId<T>::value) {
      raw(value.value());
    } else if constexpr (std::same_as<T, Bytes> || std::same_as<T, Duration>) {
      raw(value.count());
    } else if constexpr (std::same_as<T, bool>) {
      raw(static_cast<std::uint8_t>(value));
    } else {
      raw(value);
    }
  }

  // A length and the bytes. More than `limit` is an error of the writer.
  void bytes(std::span<const std::byte> value, std::size_t limit);
  void string(std::string_view value, std::size_t limit) {
    bytes(std::as_bytes(std::span(value.data(), value.size())), limit);
  }
  // The length of an array whose elements the caller puts next.
  void count(std::size_t value, std::size_t limit);
  // Bytes without a length: for what both sides know the size of.
  void fixed(std::span<const std::byte> value);

  bool ok() const { return ok_; }
  // Bytes written so far.
  std::size_t size() const { return static_cast<std::size_t>(next_ - begin_); }

 private:
  template <typename T>
  void raw(T value) {
    fixed(std::as_bytes(std::span<const T, 1>(&value, 1)));
  }

  std::byte* begin_;
  std::byte* next_;
  std::byte* end_;
  bool ok_ = true;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> in) : next_(in.data()), end_(next_ + in.size()) {}

  // The next value. bool takes 0 and 1 only; an enum takes any number of its
  // type (use get_enum where only some are good).
  template <Scalar T>
  T get() {
    if constexpr (std::is_enum_v<T>) {
      return static_cast<T>(raw<std::underlying_type_t<T>>());
    } else if constexpr (internal::IsStrongId<T>::value) {
      return T(raw<typename T::Rep>());
    } else if constexpr (std::same_as<T, Bytes>) {
      return T(raw<std::uint64_t>());
    } else if constexpr (std::same_as<T, Duration>) {
      return T(raw<Duration::rep>());
    } else if constexpr (std::same_as<T, bool>) {
      const auto value = raw<std::uint8_t>();
      if (value > 1) give_up();
      return value == 1;
    } else {
      return raw<T>();
    }
  }
  // An enum whose good values are first … last.
  template <typename E>
    requires std::is_enum_v<E>
  E get_enum(E first, E last) {
    const E value = get<E>();
    if (value >= first && value <= last) return value;
    give_up();
    return first;
  }

  // A view of at most `limit` bytes.
  std::span<const std::byte> bytes(std::size_t limit);
  std::string_view string(std::size_t limit) {
    const std::span<const std::byte> view = bytes(limit);
    return {reinterpret_cast<const char*>(view.data()), view.size()};
  }
  // The length of an array of at most `limit` elements of at least
  // `element_bytes` encoded bytes each: an array that the rest of the message
  // could not hold is refused before anybody makes room for it.
  std::size_t count(std::size_t limit, std::size_t element_bytes);
  std::span<const std::byte> fixed(std::size_t length);

  // For a message's own rules: what was read makes no sense.
  void give_up() {
    ok_ = false;
    next_ = end_;
  }

  bool ok() const { return ok_; }
  // Everything was good, and nothing is left: what a decoded message must be.
  bool finished() const { return ok_ && next_ == end_; }
  std::size_t remaining() const { return static_cast<std::size_t>(end_ - next_); }

 private:
  template <typename T>
  T raw() {
    T value{};
    const std::span<const std::byte> from = fixed(sizeof value);
    if (!from.empty()) std::memcpy(&value, from.data(), sizeof value);
    return value;
  }

  const std::byte* next_;
  const std::byte* end_;
  bool ok_ = true;
};

inline void Writer::fixed(std::span<const std::byte> value) {
  if (!ok_ || value.size() > static_cast<std::size_t>(end_ - next_)) {
    ok_ = false;
    return;
  }
  if (!value.empty()) std::memcpy(next_, value.data(), value.size());
  next_ += value.size();
}

inline void Writer::count(std::size_t value, std::size_t limit) {
  if (value > limit || value > UINT32_MAX) {
    ok_ = false;
    return;
  }
  put(static_cast<std::uint32_t>(value));
}

inline void Writer::bytes(std::span<const std::byte> value, std::size_t limit) {
  count(value.size(), limit);
  fixed(value);
}

inline std::span<const std::byte> Reader::fixed(std::size_t length) {
  if (!ok_ || length > remaining()) {
    give_up();
    return {};
  }
  const std::byte* from = next_;
  next_ += length;
  return {from, length};
}

inline std::size_t Reader::count(std::size_t limit, std::size_t element_bytes) {
  const auto value = get<std::uint32_t>();
  // Divides instead of multiplying: `value` is a peer's number.
  if (!ok_ || value > limit || (element_bytes != 0 && value > remaining() / element_bytes)) {
    give_up();
    return 0;
  }
  return value;
}

inline std::span<const std::byte> Reader::bytes(std::size_t limit) { return fixed(count(limit, 1)); }

}  // namespace yonder::rpc
