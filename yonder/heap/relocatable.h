#pragma once
// Which types may live in far memory: those whose objects can be moved by copying their bytes.
//
// The heap moves objects when it brings them in or takes garbage out. Plain data may always be
// moved so. A class with a destructor or with far pointers inside may, if no pointer to the
// object itself or to a part of it is kept anywhere (also not in its members); such a class says
// so, by naming its members:
//
//   struct Node {
//     int value;
//     far::unique_ptr<Node> next;
//   };
//   YONDER_FAR_TYPE(Node, value, next);       // at namespace scope, in the global namespace
//
// Every member named must itself be relocatable: a std::string (whose pointer may point into
// itself) or a std::list is refused where it is declared.
//
// Concurrency and lifetime: compile time only.

#include <cstddef>
#include <type_traits>

namespace yonder::heap {

// Specialise through YONDER_FAR_TYPE, or directly for a template of your own.
template <typename T>
struct is_relocatable : std::is_trivially_copyable<T> {};

template <typename T>
inline constexpr bool is_relocatable_v = is_relocatable<std::remove_cv_t<T>>::value;

template <typename T, std::size_t kCount>
struct is_relocatable<T[kCount]> : is_relocatable<T> {};

template <typename T>
constexpr void require_relocatable() {
  static_assert(is_relocatable_v<T>,
                "far memory: this type is not known to be movable by copying its bytes. If no pointer to the "
                "object or into it is ever kept, declare YONDER_FAR_TYPE(Type, members…) after the type "
                "(yonder/heap/relocatable.h); otherwise keep it in local memory");
  static_assert(alignof(T) <= 16, "far memory: objects are aligned to 16 bytes at most");
}

namespace internal {
// The first is void, so that the list may begin with a comma.
template <typename Void, typename... Members>
inline constexpr bool are_relocatable = (is_relocatable_v<Members> && ...);
}  // namespace internal

}  // namespace yonder::heap

// NOLINTBEGIN: a macro, because C++23 cannot list the members of a class.
#define YONDER_FAR_TYPE(Type, ...)                                                                           \
  template <>                                                                                                \
  struct yonder::heap::is_relocatable<Type> : std::true_type {                                               \
    static_assert(                                                                                           \
        yonder::heap::internal::are_relocatable<void YONDER_FAR_EXPAND(YONDER_FAR_EACH(Type, __VA_ARGS__))>, \
        "YONDER_FAR_TYPE: a member of " #Type " is not relocatable itself");                                 \
  }
// Up to 27 members: each EXPAND looks at the list three times more.
#define YONDER_FAR_EACH(Type, member, ...) \
  , decltype(Type::member) __VA_OPT__(YONDER_FAR_AGAIN YONDER_FAR_PARENS(Type, __VA_ARGS__))
#define YONDER_FAR_AGAIN() YONDER_FAR_EACH
#define YONDER_FAR_PARENS ()
#define YONDER_FAR_EXPAND(...) YONDER_FAR_EXPAND2(YONDER_FAR_EXPAND2(YONDER_FAR_EXPAND2(__VA_ARGS__)))
#define YONDER_FAR_EXPAND2(...) YONDER_FAR_EXPAND1(YONDER_FAR_EXPAND1(YONDER_FAR_EXPAND1(__VA_ARGS__)))
#define YONDER_FAR_EXPAND1(...) YONDER_FAR_EXPAND0(YONDER_FAR_EXPAND0(YONDER_FAR_EXPAND0(__VA_ARGS__)))
#define YONDER_FAR_EXPAND0(...) __VA_ARGS__
// NOLINTEND
