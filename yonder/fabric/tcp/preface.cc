#include "yonder/fabric/tcp/internal/preface.h"

#include <algorithm>
#include <cstring>

#include "yonder/base/check.h"
#include "yonder/base/fixed_layout.h"

namespace yonder::fabric::tcp {
OpenerPreface::Encoded OpenerPreface::encode() const {
  Encoded out{};
  hello.encode(std::span(out).first<Hello::kEncodedBytes>());
  put_field(std::span<std::byte>(out), 40, static_cast<std::uint32_t>(role));
  put_field(std::span<std::byte>(out), 48, ticket);
  return out;
}

Result<OpenerPreface> OpenerPreface::decode(std::span<const std::byte> bytes) {
  YONDER_CHECK(bytes.size() >= kBytes, "a preface is read whole");
  YONDER_TRY(hello, Hello::decode(bytes));
  const auto role = get_field<std::uint32_t>(bytes, 40);
  if (role > 1 || get_field<std::uint32_t>(bytes, 44) != 0)
    return fail(ErrorCode::kMalformedFrame, "read preface: role", role);
  return OpenerPreface{
      .hello = hello, .role = static_cast<StreamRole>(role), .ticket = get_field<std::uint64_t>(bytes, 48)};
}

ListenerPreface::Encoded ListenerPreface::encode() const {
  Encoded out{};
  hello.encode(std::span(out).first<Hello::kEncodedBytes>());
  put_field(std::span<std::byte>(out), 40, static_cast<std::uint16_t>(status));
  put_field(std::span<std::byte>(out), 42, greeting_bytes);
  put_field(std::span<std::byte>(out), 44, wants_backward ? kWantsBackward : 0u);
  put_field(std::span<std::byte>(out), 48, ticket);
  return out;
}

Result<ListenerPreface> ListenerPreface::decode(std::span<const std::byte> bytes) {
  YONDER_CHECK(bytes.size() >= kBytes, "a preface is read whole");
  YONDER_TRY(hello, Hello::decode(bytes));
  ListenerPreface preface{.hello = hello,
                          .status = static_cast<ErrorCode>(get_field<std::uint16_t>(bytes, 40)),
                          .greeting_bytes = get_field<std::uint16_t>(bytes, 42),
                          .ticket = get_field<std::uint64_t>(bytes, 48)};
  const auto flags = get_field<std::uint32_t>(bytes, 44);
  if (preface.greeting_bytes > kMaxGreetingBytes || flags > kWantsBackward)
    return fail(ErrorCode::kMalformedFrame, "read preface: greeting or flags", preface.greeting_bytes);
  preface.wants_backward = flags == kWantsBackward;
  return preface;
}

bool may_be_hello(std::span<const std::byte> bytes) {
  const std::uint32_t magic = Hello::kMagic;
  return std::memcmp(bytes.data(), &magic, std::min(bytes.size(), sizeof magic)) == 0;
}

bool looks_like_tls(std::span<const std::byte> bytes) {
  // A TLS record: type 20 to 23, version 3.x.
  if (bytes.empty()) return false;
  const auto type = std::to_integer<unsigned>(bytes[0]);
  return type >= 20 && type <= 23 && (bytes.size() < 2 || bytes[1] == std::byte{3});
}

}  // namespace yonder::fabric::tcp
