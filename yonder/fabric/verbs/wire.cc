#include <algorithm>
#include <cstring>

#include "yonder/base/check.h"
#include "yonder/base/fixed_layout.h"
#include "yonder/fabric/verbs/internal/wire.h"

namespace yonder::fabric::verbs {
namespace {

constexpr std::uint32_t kResumeMagic = 0x4d535259;  // "YRSM" in memory order
constexpr std::uint32_t kRejectMagic = 0x4a525259;  // "YRRJ"

ResumeRequest decode_resume(std::span<const std::byte> bytes) {
  ResumeRequest resume;
  resume.refused.op = Op{get_field<std::uint8_t>(bytes, 4)};
  resume.seat = get_field<std::uint64_t>(bytes, 8);
  resume.refused.remote = {RegionKey{get_field<std::uint64_t>(bytes, 16)},
                           get_field<std::uint64_t>(bytes, 24)};
  resume.refused.length = get_field<std::uint64_t>(bytes, 32);
  resume.epoch = Epoch{get_field<std::uint64_t>(bytes, 40)};
  resume.received = get_field<std::uint64_t>(bytes, 48);
  return resume;
}

}  // namespace

std::array<std::byte, kRequestBytes> encode(const OpenRequest& request) {
  std::array<std::byte, kRequestBytes> out{};
  request.hello.encode(std::span(out).first<Hello::kEncodedBytes>());
  put_field(out, 40, request.replaces);
  return out;
}

std::array<std::byte, kRequestBytes> encode(const ResumeRequest& request) {
  std::array<std::byte, kRequestBytes> out{};
  put_field(out, 0, kResumeMagic);
  put_field(out, 4, request.refused.op);
  put_field(out, 8, request.seat);
  put_field(out, 16, request.refused.remote.key.value);
  put_field(out, 24, request.refused.remote.offset);
  put_field(out, 32, request.refused.length);
  put_field(out, 40, request.epoch.value());
  put_field(out, 48, request.received);
  return out;
}

std::vector<std::byte> encode(const Reply& reply) {
  YONDER_CHECK(reply.greeting.size() <= kMaxGreetingBytes, "the listener has checked its greeting");
  std::vector<std::byte> out(kReplyHeadBytes + reply.greeting.size());
  reply.hello.encode(std::span(out).first<Hello::kEncodedBytes>());
  put_field(out, 40, reply.seat);
  put_field(out, 48, reply.current_key.value);
  put_field(out, 56, reply.reason);
  put_field(out, 58, static_cast<std::uint16_t>(reply.greeting.size()));
  std::ranges::copy(reply.greeting, out.begin() + kReplyHeadBytes);
  return out;
}

std::array<std::byte, kRejectionBytes> encode_rejection(ErrorCode code) {
  std::array<std::byte, kRejectionBytes> out{};
  put_field(out, 0, kRejectMagic);
  put_field(out, 4, code);
  return out;
}

Result<Request> decode_request(std::span<const std::byte> bytes) {
  if (bytes.size() < kRequestBytes) {
    return fail(ErrorCode::kMalformedFrame, "read a connection request",
                static_cast<std::int64_t>(bytes.size()));
  }
  if (get_field<std::uint32_t>(bytes, 0) == kResumeMagic) return Request{decode_resume(bytes)};
  YONDER_TRY(hello, Hello::decode(bytes));
  return Request{OpenRequest{.hello = hello, .replaces = get_field<std::uint64_t>(bytes, 40)}};
}

Result<Reply> decode_reply(std::span<const std::byte> bytes) {
  if (bytes.size() < kReplyHeadBytes) {
    return fail(ErrorCode::kMalformedFrame, "read a connection reply",
                static_cast<std::int64_t>(bytes.size()));
  }
  YONDER_TRY(hello, Hello::decode(bytes));
  Reply reply{.hello = hello,
              .seat = get_field<std::uint64_t>(bytes, 40),
              .current_key = RegionKey{get_field<std::uint64_t>(bytes, 48)},
              .reason = get_field<ErrorCode>(bytes, 56)};
  const std::size_t length = get_field<std::uint16_t>(bytes, 58);
  const bool reason_is_known = reply.reason == ErrorCode::kOk || is_known(reply.reason);
  if (length > kMaxGreetingBytes || length > bytes.size() - kReplyHeadBytes || !reason_is_known) {
    return fail(ErrorCode::kMalformedFrame, "read a connection reply", static_cast<std::int64_t>(length));
  }
  const auto greeting = bytes.subspan(kReplyHeadBytes, length);
  reply.greeting.assign(greeting.begin(), greeting.end());
  return reply;
}

ErrorCode decode_rejection(std::span<const std::byte> bytes) {
  if (bytes.size() < kRejectionBytes || get_field<std::uint32_t>(bytes, 0) != kRejectMagic) {
    return ErrorCode::kConnectionRefused;
  }
  const auto code = get_field<ErrorCode>(bytes, 4);
  return code != ErrorCode::kOk && is_known(code) ? code : ErrorCode::kConnectionRefused;
}

}  // namespace yonder::fabric::verbs
