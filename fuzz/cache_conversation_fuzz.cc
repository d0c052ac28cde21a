// Feeds arbitrary bytes to a conversation with a small store, in pieces that the input
// chooses: classic and meta commands, values, garbage. Whatever they are, the store stays
// whole, what is used never exceeds what was given, and the replies depend on the bytes
// alone, not on how they were cut.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "yonder/base/check.h"
#include "yonder/cache/conversation.h"
#include "yonder/cache/service.h"
#include "yonder/cache/store.h"

namespace {

using namespace yonder;
using namespace yonder::cache;

struct Party {
  std::unique_ptr<Store> store =
      Store::create({.partitions = 2, .memory_bytes = 512 << 10, .policy = {.max_item_bytes = 64 << 10}})
          .value();
  Service service{*store, {.max_item_bytes = 64 << 10}};
  Conversation conversation{service, service.make_counters(), nullptr};

  void check() const {
    for (std::size_t i = 0; i < store->partitions(); ++i) {
      store->visit_partition(i, [](Partition& partition) { partition.check_invariants(); });
    }
  }
};

constexpr Seconds kNow = 1'800'000'000;

// Says `bytes`, `piece` at a time, and collects the replies.
std::string talk(Party& party, std::string_view bytes, std::size_t piece) {
  std::string held;
  std::string replies;
  while (!bytes.empty() || !held.empty()) {
    const std::size_t fresh = std::min(piece, bytes.size());
    held.append(bytes.substr(0, fresh));
    bytes.remove_prefix(fresh);
    const std::size_t used = party.conversation.consume(held, kNow);
    YONDER_CHECK(used <= held.size(), "no more is used than was given");
    held.erase(0, used);
    Output& out = party.conversation.output();
    const bool said = !out.empty();
    replies.append(out.text());
    out.consume(out.size());
    if (party.conversation.closed()) break;
    if (fresh == 0 && used == 0 && !said) break;  // It waits for more.
  }
  return replies;
}

// Reports show times and process ids, which are not the same twice.
bool reports(std::string_view bytes) {
  return bytes.find("stats") != std::string_view::npos || bytes.find("lru") != std::string_view::npos;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  Party whole;
  const std::string expected = talk(whole, bytes, bytes.size() + 1);
  whole.check();
  // A line without end closes the connection when it is seen to be too long, which depends
  // on the pieces; short inputs have none.
  if (bytes.size() >= Conversation::kMaxLine || reports(bytes)) return 0;
  Party pieces;
  const std::string cut = talk(pieces, bytes, 1 + data[0] % 64);
  pieces.check();
  YONDER_CHECK(cut == expected, "replies do not depend on how the bytes were cut");
  return 0;
}
