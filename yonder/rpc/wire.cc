#include "yonder/rpc/wire.h"

namespace yonder::rpc {

Result<Greeting> read_greeting(std::span<const std::byte> bytes) {
  Greeting greeting;
  if (bytes.size() < sizeof greeting)
    return fail(ErrorCode::kProtocolMismatch, "read rpc greeting", static_cast<std::int64_t>(bytes.size()));
  std::memcpy(&greeting, bytes.data(), sizeof greeting);
  if (greeting.magic != Greeting::kMagic) return fail(ErrorCode::kProtocolMismatch, "read rpc greeting");
  if (greeting.min_version > kVersion || greeting.max_version < kVersion)
    return fail(ErrorCode::kProtocolMismatch, "agree on an rpc version", greeting.min_version);
  if (greeting.credits == 0 || greeting.max_request > kMaxPayloadBytes ||
      greeting.max_response > kMaxPayloadBytes)
    return fail(ErrorCode::kProtocolMismatch, "read rpc greeting: limits", greeting.credits);
  return greeting;
}

std::uint32_t budget_us(Duration left) {
  if (left <= Duration::zero()) return 0;
  const auto whole = (static_cast<std::uint64_t>(left.count()) + 999) / 1000;
  return whole < kNoBudget ? static_cast<std::uint32_t>(whole) : kNoBudget;
}

}  // namespace yonder::rpc
