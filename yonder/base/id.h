#pragma once
// Numbers that cannot be mistaken for each other: ids and byte counts.
//
// A StrongId is a number used as a name. It can be compared, hashed and sent,
// but not added to: an id plus one is not an id. Bytes is a number used as an
// amount: it adds and scales, and it never wraps silently. Both are as cheap as
// the integer inside.
//
//   struct NodeIdTag;
//   using NodeId = StrongId<NodeIdTag, std::uint32_t>;
//   constexpr Bytes kBlockBytes = 64_KiB;
//
// Durations are std::chrono's (time.h). Text forms of all quantities are in
// units.h, so that this header stays light.
//
// Concurrency: values.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "yonder/base/check.h"

namespace yonder {

// Tag is any type, declared only: it makes the id distinct from all others.
template <typename Tag, typename Representation>
class StrongId {
 public:
  using Rep = Representation;

  constexpr StrongId() = default;  // Zero, which each kind of id may reserve.
  constexpr explicit StrongId(Rep value) : value_(value) {}

  // The number, for the wire and for printing.
  constexpr Rep value() const { return value_; }

  friend constexpr auto operator<=>(StrongId, StrongId) = default;

 private:
  Rep value_ = 0;
};

// Whose request this is. Tenant 0 is the default of an installation without tenants.
struct TenantIdTag;
using TenantId = StrongId<TenantIdTag, std::uint32_t>;

// Which topology a request was made under: a greater epoch fences a smaller one.
struct EpochTag;
using Epoch = StrongId<EpochTag, std::uint64_t>;

// The epoch that fences `epoch`: what an owner change installs. 2^64 changes
// cannot happen, so the end is a bug.
constexpr Epoch next(Epoch epoch) {
  YONDER_CHECK(epoch.value() != UINT64_MAX, "epochs never run out");
  return Epoch(epoch.value() + 1);
}

// An amount of memory. The operators are for amounts we computed ourselves and
// abort when the result does not fit; the checked_ functions are for amounts
// that a peer or a user had a part in.
class Bytes {
 public:
  constexpr Bytes() = default;
  constexpr explicit Bytes(std::uint64_t count) : count_(count) {}
  constexpr std::uint64_t count() const { return count_; }

  static constexpr Bytes max() { return Bytes(UINT64_MAX); }

  friend constexpr auto operator<=>(Bytes, Bytes) = default;

  // nullopt if the exact result is not in [0, 2^64).
  friend constexpr std::optional<Bytes> checked_add(Bytes a, Bytes b) {
    std::uint64_t sum = 0;
    if (__builtin_add_overflow(a.count_, b.count_, &sum)) return std::nullopt;
    return Bytes(sum);
  }
  friend constexpr std::optional<Bytes> checked_sub(Bytes a, Bytes b) {
    if (a.count_ < b.count_) return std::nullopt;
    return Bytes(a.count_ - b.count_);
  }
  friend constexpr std::optional<Bytes> checked_mul(Bytes a, std::uint64_t times) {
    std::uint64_t product = 0;
    if (__builtin_mul_overflow(a.count_, times, &product)) return std::nullopt;
    return Bytes(product);
  }

  friend constexpr Bytes operator+(Bytes a, Bytes b) { return in_range(checked_add(a, b)); }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return in_range(checked_sub(a, b)); }
  friend constexpr Bytes operator*(Bytes a, std::uint64_t times) { return in_range(checked_mul(a, times)); }
  friend constexpr Bytes operator*(std::uint64_t times, Bytes a) { return a * times; }
  constexpr Bytes& operator+=(Bytes other) { return *this = *this + other; }
  constexpr Bytes& operator-=(Bytes other) { return *this = *this - other; }

  // How many times `b` fits into `a`, and what is left. Requires b > 0.
  friend constexpr std::uint64_t operator/(Bytes a, Bytes b) { return a.count_ / nonzero(b.count_); }
  friend constexpr Bytes operator%(Bytes a, Bytes b) { return Bytes(a.count_ % nonzero(b.count_)); }
  // One of `parts` equal parts, rounded down. Requires parts > 0.
  friend constexpr Bytes operator/(Bytes a, std::uint64_t parts) { return Bytes(a.count_ / nonzero(parts)); }

 private:
  static constexpr Bytes in_range(std::optional<Bytes> result) {
    YONDER_CHECK(result.has_value(), "byte arithmetic left the range of 64 bits");
    return *result;
  }
  static constexpr std::uint64_t nonzero(std::uint64_t divisor) {
    YONDER_CHECK(divisor != 0, "byte arithmetic divided by zero");
    return divisor;
  }

  std::uint64_t count_ = 0;
};

inline namespace literals {

// consteval: a literal too large for 64 bits is a compile error.
consteval Bytes operator""_B(unsigned long long n) { return Bytes(n); }
consteval Bytes operator""_KiB(unsigned long long n) { return Bytes(n) * (std::uint64_t{1} << 10); }
consteval Bytes operator""_MiB(unsigned long long n) { return Bytes(n) * (std::uint64_t{1} << 20); }
consteval Bytes operator""_GiB(unsigned long long n) { return Bytes(n) * (std::uint64_t{1} << 30); }
consteval Bytes operator""_TiB(unsigned long long n) { return Bytes(n) * (std::uint64_t{1} << 40); }

}  // namespace literals
}  // namespace yonder

template <typename Tag, typename Rep>
struct std::hash<yonder::StrongId<Tag, Rep>> {
  std::size_t operator()(yonder::StrongId<Tag, Rep> id) const { return std::hash<Rep>{}(id.value()); }
};
