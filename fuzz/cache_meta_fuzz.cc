// The line parsers of the text and the meta protocol, and the scanner of other servers'
// answers, on arbitrary bytes: they read nothing beyond their input (AddressSanitizer) and
// accept no key or length beyond the protocol's limits.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "yonder/base/check.h"
#include "yonder/cache/answer_scanner.h"
#include "yonder/cache/base64.h"
#include "yonder/cache/meta_protocol.h"
#include "yonder/cache/text_protocol.h"

namespace {

using namespace yonder;
using namespace yonder::cache;

void storage(const CommandLine& line) {
  if (!storage_mode(line[0])) return;
  const auto parsed = parse_storage(line);
  if (parsed) YONDER_CHECK(parsed->key.size() <= kMaxKeyBytes, "keys have their limit");
}

void meta(MetaKind kind, const CommandLine& line) {
  MetaLine out;
  const auto parsed = parse_meta(kind, line, out);
  if (!parsed) return;
  YONDER_CHECK(out.key().size() <= kMaxKeyBytes && !out.key().empty(), "keys have their limits");
  const auto mode = meta_store_mode(out.flags);
  YONDER_CHECK(mode || !mode.error().reply.empty(), "a refusal says why");
}

void answer(std::string_view bytes) {
  AnswerScanner scanner;
  const auto whole = scanner.scan(bytes);
  if (!whole || !whole->has_value()) return;
  YONDER_CHECK(**whole + AnswerScanner::kMarkBytes <= bytes.size(), "an answer ends within what came");
}

void base64(std::string_view text) {
  std::vector<char> out(text.size());
  const auto size = decode_base64(text, out);
  if (!size) return;
  std::vector<char> again(base64_bytes(*size));
  encode_base64({out.data(), *size}, again);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A copy of exactly this size, so that one byte too far is seen.
  const std::vector<char> input(data, data + size);
  const std::string_view text(input.data(), input.size());
  const CommandLine line(text);
  storage(line);
  for (const MetaKind kind : {MetaKind::kGet, MetaKind::kSet, MetaKind::kDelete, MetaKind::kArithmetic})
    meta(kind, line);
  answer(text);
  base64(text);
  return 0;
}
