#pragma once
// can_migrate<T>: whether a T still means the same in another process.
//
// Numbers, enumerations, and std containers over segment::Allocator do; pointers,
// references, functions, handles and containers over other allocators do not: what they
// point to stays behind. An aggregate is as good as its members, as far as they can be
// seen (up to eight of them; more, or a class with private members, is believed if it is
// trivially copyable). Who knows better says so:
//
//   template <> inline constexpr bool yonder::segment::believe_migratable<Price> = true;
//
// Concurrency: compile time only.

#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "yonder/segment/allocator.h"

namespace yonder::segment {

template <typename T>
inline constexpr bool believe_migratable = false;

namespace internal {

// Becomes whatever a member wants, so that members can be counted.
struct Anything {
  template <typename T>
  operator T() const;  // NOLINT: implicit on purpose.
};

template <typename T, std::size_t... kIndex>
consteval bool takes(std::index_sequence<kIndex...>) {
  return requires { T{(static_cast<void>(kIndex), Anything{})...}; };
}

// The most initialisers that T takes, at most 9.
template <typename T, std::size_t kCount = 9>
consteval std::size_t count_members() {
  if constexpr (kCount == 0 || takes<T>(std::make_index_sequence<kCount>{})) {
    return kCount;
  } else {
    return count_members<T, kCount - 1>();
  }
}

template <typename... Members>
struct Types {};

template <typename T>
auto members_of(const T& value) {
  constexpr std::size_t kCount = count_members<T>();
  const auto types = []<typename... M>(const M&...) { return Types<M...>{}; };
  if constexpr (kCount == 0 || kCount > 8) {
    return Types<>{};
  } else if constexpr (kCount == 1) {
    const auto& [a] = value;
    return types(a);
  } else if constexpr (kCount == 2) {
    const auto& [a, b] = value;
    return types(a, b);
  } else if constexpr (kCount == 3) {
    const auto& [a, b, c] = value;
    return types(a, b, c);
  } else if constexpr (kCount == 4) {
    const auto& [a, b, c, d] = value;
    return types(a, b, c, d);
  } else if constexpr (kCount == 5) {
    const auto& [a, b, c, d, e] = value;
    return types(a, b, c, d, e);
  } else if constexpr (kCount == 6) {
    const auto& [a, b, c, d, e, f] = value;
    return types(a, b, c, d, e, f);
  } else if constexpr (kCount == 7) {
    const auto& [a, b, c, d, e, f, g] = value;
    return types(a, b, c, d, e, f, g);
  } else {
    const auto& [a, b, c, d, e, f, g, h] = value;
    return types(a, b, c, d, e, f, g, h);
  }
}

template <typename A>
inline constexpr bool is_segment_allocator = false;
template <typename T>
inline constexpr bool is_segment_allocator<Allocator<T>> = true;
template <typename T>
inline constexpr bool is_segment_allocator<std::scoped_allocator_adaptor<Allocator<T>>> = true;

template <typename T>
struct CanMigrate;

template <typename... Members>
consteval bool all_can(Types<Members...>) {
  return (CanMigrate<Members>::value && ...);
}

template <typename T>
consteval bool decide() {
  if constexpr (believe_migratable<T>) {
    return true;
  } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
    return true;
  } else if constexpr (!std::is_class_v<T>) {
    return false;  // Pointers, references, functions, members, unions.
  } else if constexpr (std::is_aggregate_v<T> && std::is_trivially_copyable_v<T>) {
    return all_can(decltype(members_of(std::declval<T>())){});
  } else {
    return std::is_trivially_copyable_v<T>;
  }
}

template <typename T>
struct CanMigrate : std::bool_constant<decide<T>()> {};
template <typename T>
struct CanMigrate<const T> : CanMigrate<T> {};
template <typename T, std::size_t kCount>
struct CanMigrate<std::array<T, kCount>> : CanMigrate<T> {};
template <typename T, std::size_t kCount>
struct CanMigrate<T[kCount]> : CanMigrate<T> {};
template <typename T>
struct CanMigrate<std::optional<T>> : CanMigrate<T> {};
template <typename A, typename B>
struct CanMigrate<std::pair<A, B>> : std::bool_constant<CanMigrate<A>::value && CanMigrate<B>::value> {};
template <typename C, typename Traits, typename A>
struct CanMigrate<std::basic_string<C, Traits, A>> : std::bool_constant<is_segment_allocator<A>> {};
template <typename C, typename Traits>
struct CanMigrate<std::basic_string_view<C, Traits>> : std::false_type {};
template <typename T>
struct CanMigrate<std::reference_wrapper<T>> : std::false_type {};
template <typename T, typename A>
struct CanMigrate<std::vector<T, A>> : std::bool_constant<is_segment_allocator<A> && CanMigrate<T>::value> {};
template <typename K, typename V, typename C, typename A>
struct CanMigrate<std::map<K, V, C, A>>
    : std::bool_constant<is_segment_allocator<A> && CanMigrate<K>::value && CanMigrate<V>::value> {};
template <typename K, typename V, typename H, typename E, typename A>
struct CanMigrate<std::unordered_map<K, V, H, E, A>>
    : std::bool_constant<is_segment_allocator<A> && CanMigrate<K>::value && CanMigrate<V>::value> {};

}  // namespace internal

template <typename T>
inline constexpr bool can_migrate = internal::CanMigrate<T>::value;

}  // namespace yonder::segment
