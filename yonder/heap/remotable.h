#pragma once
// Which types may live in an offload space: those that mean the same in another process.
//
// Numbers, enums and arrays of them do. A class does if it has no virtual functions (their
// table is elsewhere there), no destructor that does something (objects go with their
// space), and only members that are remotable or pointers; it says so, by naming them:
//
//   struct Node {
//     std::uint64_t key;
//     Node* next;
//   };
//   YONDER_REMOTABLE(Node, key, next);        // at namespace scope, in the global namespace
//
// A pointer in a remotable object is null or points into the space of that object: nothing
// else is there on the node. That is for whoever stores it to see to.
//
// Concurrency and lifetime: compile time only.

#include <array>
#include <cstddef>
#include <type_traits>

#include "yonder/heap/relocatable.h"

namespace yonder::heap {

// Specialise through YONDER_REMOTABLE, or directly for a template of your own. Pointers to
// functions are not: code is elsewhere there.
template <typename T>
struct is_remotable
    : std::bool_constant<std::is_arithmetic_v<T> || std::is_enum_v<T> ||
                         (std::is_pointer_v<T> && !std::is_function_v<std::remove_pointer_t<T>>)> {};

template <typename T>
inline constexpr bool is_remotable_v = is_remotable<std::remove_cv_t<T>>::value;

template <typename T, std::size_t kCount>
struct is_remotable<T[kCount]> : std::bool_constant<is_remotable_v<T>> {};
template <typename T, std::size_t kCount>
struct is_remotable<std::array<T, kCount>> : std::bool_constant<is_remotable_v<T>> {};

template <typename T>
concept Remotable = is_remotable_v<T> && std::is_trivially_destructible_v<T> && !std::is_polymorphic_v<T>;

namespace internal {
// The first is void, so that the list may begin with a comma.
template <typename Void, typename... Members>
inline constexpr bool are_remotable = (is_remotable_v<Members> && ...);
}  // namespace internal

}  // namespace yonder::heap

// NOLINTBEGIN: a macro, because C++23 cannot list the members of a class.
#define YONDER_REMOTABLE(Type, ...)                                                                        \
  template <>                                                                                              \
  struct yonder::heap::is_remotable<Type> : std::true_type {                                               \
    static_assert(                                                                                         \
        yonder::heap::internal::are_remotable<void YONDER_FAR_EXPAND(YONDER_FAR_EACH(Type, __VA_ARGS__))>, \
        "YONDER_REMOTABLE: a member of " #Type " is not remotable itself");                                \
    static_assert(std::is_trivially_destructible_v<Type> && !std::is_polymorphic_v<Type>,                  \
                  "YONDER_REMOTABLE: " #Type " has a destructor or virtual functions");                    \
  }
// NOLINTEND
