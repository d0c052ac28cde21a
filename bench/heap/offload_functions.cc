// heap_bench.so: the functions that `yonder bench offload` runs on the node. They are the loops of
// data_frame.cc and web_service.cc.
#include <cstring>
#include <span>

#include "bench/heap/offload_arguments.h"
#include "bench/heap/web_service_parts.h"
#include "yonder/offload/function.h"

namespace {

using namespace yonder::bench::heap;

// Made while the library is loaded: OpenSSL reads files when it is used for the first time.
struct ReadyReplier {
  ReadyReplier() {
    const std::array<std::byte, kElementBytes> nothing{};
    (void)replier.reply(nothing);
  }
  Replier replier;
} ready;

void copy(const CopyRows& rows) { std::memcpy(rows.to, rows.from, rows.rows * sizeof(std::uint64_t)); }

void shuffle(const ShuffleRows& rows) {
  for (std::uint64_t i = 0; i < rows.rows; ++i) rows.to[i] = rows.from[rows.order[i]];
}

void reply(const Replies& wanted, yonder::offload::Output& out) {
  for (std::uint64_t i = 0; i < wanted.count && i < Replies::kAtOnce; ++i) {
    const auto made = ready.replier.reply(std::span(wanted.elements[i], kElementBytes));
    out.put(static_cast<std::uint32_t>(made.size()));
    out.write(made);
  }
}

}  // namespace

YONDER_OFFLOAD_FUNCTION(copy, 1);
YONDER_OFFLOAD_FUNCTION(shuffle, 1);
YONDER_OFFLOAD_FUNCTION(reply, 1);
