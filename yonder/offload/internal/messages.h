#pragma once
// What host and worker say to each other, over a Unix socket of messages.
//
//   host → worker   StartMessage + two descriptors (memory, library)    once, first
//   worker → host   ReplyMessage with number 0                          ready, or why not
//   host → worker   CallMessage, then the arguments
//   worker → host   ReplyMessage, then the result
//
// Both are of one build on one machine, so the structs are their own encoding. But a worker
// runs foreign code that may write to the socket: the host checks every byte of a reply.
//
// Why a socket and not a mailbox in shared memory with a futex: a worker that dies hangs
// up, so that one wait sees answers and deaths alike, and the memory the host reads cannot
// change while it looks. Waking the other process costs the same, 20 µs and more; the
// copies through the kernel cost 2.
//
// Concurrency and lifetime: values.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "yonder/offload/function.h"
#include "yonder/offload/function_name.h"

namespace yonder::offload::internal {

struct StartMessage {
  std::uint64_t address = 0;       // Where the memory has to be.
  std::uint64_t bytes = 0;         // How much of it.
  std::uint64_t memory_limit = 0;  // Of the function's own, beside it.
};

struct CallMessage {
  std::uint64_t number = 0;  // From 1 on.
  std::uint32_t version = 0;
  std::uint32_t argument_bytes = 0;
  std::array<char, kMaxNamePart + 1> function{};  // Ends with 0.
};

struct ReplyMessage {
  std::uint64_t number = 0;
  std::uint32_t verdict = 0;
  std::uint32_t result_bytes = 0;
  std::int64_t detail = 0;
};

inline constexpr std::size_t kMaxCallMessage = sizeof(CallMessage) + kMaxArgumentBytes;
inline constexpr std::size_t kMaxReplyMessage = sizeof(ReplyMessage) + kMaxResultBytes;

struct Reply {
  std::uint64_t number = 0;
  Verdict verdict = Verdict::kDone;
  std::int64_t detail = 0;
  std::span<const std::byte> result;  // In the bytes that were parsed.
};

// Nothing: no reply of a worker that follows the rules.
inline std::optional<Reply> parse_reply(std::span<const std::byte> bytes) {
  ReplyMessage head;
  if (bytes.size() < sizeof head || bytes.size() > kMaxReplyMessage) return std::nullopt;
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.verdict > static_cast<std::uint32_t>(kLastVerdict)) return std::nullopt;
  if (head.result_bytes != bytes.size() - sizeof head) return std::nullopt;
  return Reply{.number = head.number,
               .verdict = static_cast<Verdict>(head.verdict),
               .detail = head.detail,
               .result = bytes.subspan(sizeof head)};
}

}  // namespace yonder::offload::internal
