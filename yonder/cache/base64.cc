#include "yonder/cache/base64.h"

#include <array>
#include <cstdint>

#include "yonder/base/check.h"

namespace yonder::cache {
namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint8_t kNone = 0x80;

constexpr std::array<std::uint8_t, 256> make_table() {
  std::array<std::uint8_t, 256> table{};
  table.fill(kNone);
  for (std::size_t i = 0; i < kAlphabet.size(); ++i) {
    table[static_cast<std::uint8_t>(kAlphabet[i])] = static_cast<std::uint8_t>(i);
  }
  table['='] = 0;
  return table;
}
constexpr std::array<std::uint8_t, 256> kTable = make_table();

std::uint8_t digit(char c) { return kTable[static_cast<std::uint8_t>(c)]; }

}  // namespace

std::optional<std::size_t> decode_base64(std::string_view text, std::span<char> out) {
  std::size_t digits = 0;
  for (const char c : text) digits += digit(c) != kNone ? 1 : 0;
  if (digits == 0 || digits % 4 != 0 || digits / 4 * 3 > out.size()) return std::nullopt;
  std::size_t written = 0;
  std::uint32_t block = 0;
  int held = 0;
  int padding = 0;
  for (const char c : text) {
    if (digit(c) == kNone) continue;
    padding += c == '=' ? 1 : 0;
    block = block << 6 | digit(c);
    if (++held < 4) continue;
    for (int shift = 16; shift >= 0; shift -= 8) out[written++] = static_cast<char>(block >> shift);
    block = 0;
    held = 0;
    if (padding == 0) continue;
    if (padding > 2) return std::nullopt;
    written -= static_cast<std::size_t>(padding);
    break;
  }
  if (written == 0) return std::nullopt;
  return written;
}

std::size_t encode_base64(std::string_view bytes, std::span<char> out) {
  YONDER_CHECK(out.size() >= base64_bytes(bytes.size()), "room for base64");
  std::size_t written = 0;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t have = bytes.size() - i;
    const auto byte = [&](std::size_t k) -> std::uint32_t {
      return k < have ? static_cast<std::uint8_t>(bytes[i + k]) : 0u;
    };
    const std::uint32_t block = byte(0) << 16 | byte(1) << 8 | byte(2);
    out[written++] = kAlphabet[block >> 18];
    out[written++] = kAlphabet[block >> 12 & 63];
    out[written++] = have > 1 ? kAlphabet[block >> 6 & 63] : '=';
    out[written++] = have > 2 ? kAlphabet[block & 63] : '=';
  }
  return written;
}

}  // namespace yonder::cache
