#pragma once
// far::string: up to 4096 bytes of text, in far memory when it is long.
//
//   Result<far::string> name = far::string::try_make("a name of more than fifteen bytes");
//   if (*name == "…") …
//   use(name->read().view());                // a guard
//   std::string copy = name->str();
//
// 16 bytes (relocatable, so it may be a key, an item or a member of far objects): up to 15 bytes
// of text lie in the string itself and need no barrier, longer ones in one far object that has
// exactly their length.
//
//   byte 0                      8                     15
//      | text …                                      | length, 0…15   |   short
//      | far pointer            | unused             | kLong          |   16…4096 bytes
//
// A text beyond a page is refused with kInvalidArgument: keep it in a far::vector<char>.
//
// Costs: assign and append write the whole text anew (one allocation if it is long).
//
// Concurrency: const calls by many threads, others by one alone.
// Lifetime: the heap outlives it. A guard ends before the string changes or moves: the guard of
// a short one points into the string itself.

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "yonder/base/result.h"
#include "yonder/heap/guard.h"
#include "yonder/heap/internal/block.h"
#include "yonder/heap/relocatable.h"

namespace yonder::heap {

// The text of a string, local for as long as this lives.
class [[nodiscard]] StringGuard {
 public:
  StringGuard(internal::PageHold hold, std::string_view text) : hold_(std::move(hold)), text_(text) {}
  std::string_view view() const { return text_; }
  operator std::string_view() const { return text_; }  // NOLINT: it is one

 private:
  internal::PageHold hold_;
  std::string_view text_;
};

class string {
 public:
  static constexpr std::size_t kMaxBytes = kPageBytes;
  static constexpr std::size_t kMaxShortBytes = 15;

  string() = default;
  string(string&& other) noexcept { take(other); }
  string& operator=(string&& other) noexcept {
    if (this != &other) {
      clear();
      take(other);
    }
    return *this;
  }
  ~string() { clear(); }

  // kInvalidArgument: longer than kMaxBytes; else the errors of allocating.
  static Result<string> try_make(std::string_view text) {
    string made;
    YONDER_TRY_VOID(made.try_assign(text));
    return made;
  }
  // On an error HeapOptions::on_lost decides.
  static string make(std::string_view text) {
    Result<string> made = try_make(text);
    if (!made) internal::lost(made.error());
    return std::move(*made);
  }

  std::size_t size() const { return is_long() ? block().bytes() : length(); }
  bool empty() const { return size() == 0; }

  StringGuard read() const {
    internal::PageHold hold;
    const char* const text = is_long()
                                 ? reinterpret_cast<const char*>(block().enter<internal::Access::kRead>(hold))
                                 : reinterpret_cast<const char*>(bytes_.data());
    return {std::move(hold), std::string_view(text, size())};
  }
  std::string str() const { return std::string(read().view()); }

  // `text` may be this string's own. The string is as before on an error.
  Result<void> try_assign(std::string_view text) { return try_join(text, {}); }
  Result<void> try_append(std::string_view text) {
    const StringGuard before = read();
    return try_join(before, text);
  }
  void clear() {
    if (is_long()) std::destroy_at(&block());
    bytes_.back() = std::byte{0};
  }

  friend bool operator==(const string& a, std::string_view b) {
    return a.size() == b.size() && a.read().view() == b;
  }
  friend bool operator==(const string& a, const string& b) {
    return a.size() == b.size() && a.read().view() == b.read().view();
  }
  friend std::strong_ordering operator<=>(const string& a, std::string_view b) {
    return a.read().view() <=> b;
  }
  friend std::strong_ordering operator<=>(const string& a, const string& b) {
    return a.read().view() <=> b.read().view();
  }

 private:
  static constexpr std::byte kLong{0xff};

  bool is_long() const { return bytes_.back() == kLong; }
  std::size_t length() const { return std::to_integer<std::size_t>(bytes_.back()); }
  internal::Block& block() { return *std::launder(reinterpret_cast<internal::Block*>(bytes_.data())); }
  const internal::Block& block() const {
    return *std::launder(reinterpret_cast<const internal::Block*>(bytes_.data()));
  }

  void take(string& other) {
    if (other.is_long()) {
      hold(std::move(other.block()));
    } else {
      bytes_ = other.bytes_;
    }
    other.clear();
  }
  void hold(internal::Block block) {
    std::construct_at(reinterpret_cast<internal::Block*>(bytes_.data()), std::move(block));
    bytes_.back() = kLong;
  }
  // Becomes `first` and `second`, one behind the other.
  Result<void> try_join(std::string_view first, std::string_view second);

  alignas(8) std::array<std::byte, 16> bytes_{};
};
static_assert(sizeof(string) == 16);

template <>
struct is_relocatable<string> : std::true_type {};

inline Result<void> string::try_join(std::string_view first, std::string_view second) {
  const std::size_t size = first.size() + second.size();
  if (size > kMaxBytes)
    return fail(ErrorCode::kInvalidArgument, "far string: longer than a page",
                static_cast<std::int64_t>(size));
  const auto write = [&](std::byte* to) {
    if (!first.empty()) std::memcpy(to, first.data(), first.size());
    if (!second.empty()) std::memcpy(to + first.size(), second.data(), second.size());
  };
  if (size > kMaxShortBytes) {
    YONDER_TRY(fresh, internal::Block::make(size));
    write(fresh.memory);
    clear();
    hold(std::move(fresh.block));
    return {};
  }
  std::array<std::byte, 16> bytes{};
  write(bytes.data());
  bytes.back() = static_cast<std::byte>(size);
  clear();
  bytes_ = bytes;
  return {};
}

}  // namespace yonder::heap
