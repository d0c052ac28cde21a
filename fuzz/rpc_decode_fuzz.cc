// Feeds arbitrary bytes to everything of rpc that reads a peer's bytes: the three
// headers and the codec. The first byte chooses; reading must stay inside the
// input (AddressSanitizer), believe no length, and give back what it accepts
// byte for byte when that is written again.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "yonder/base/check.h"
#include "yonder/rpc/message.h"
#include "yonder/rpc/wire.h"

namespace {

using namespace yonder;
using namespace yonder::rpc;

// One of every field the codec knows.
struct Everything {
  static constexpr std::size_t kMaxBytes = 1024;
  static constexpr std::size_t kMaxItems = 32;

  struct Item {
    std::uint16_t key = 0;
    std::string_view value;
  };

  std::uint64_t number = 0;
  bool flag = false;
  TenantId tenant;
  Duration duration{};
  std::string_view name;
  std::span<const std::byte> blob;
  std::vector<Item> items;

  void encode(Writer& out) const {
    out.put(number);
    out.put(flag);
    out.put(tenant);
    out.put(duration);
    out.string(name, 40);
    out.bytes(blob, 300);
    out.count(items.size(), kMaxItems);
    for (const Item& item : items) {
      out.put(item.key);
      out.string(item.value, 20);
    }
  }
  void decode(Reader& in) {
    number = in.get<std::uint64_t>();
    flag = in.get<bool>();
    tenant = in.get<TenantId>();
    duration = in.get<Duration>();
    name = in.string(40);
    blob = in.bytes(300);
    items.resize(in.count(kMaxItems, 2 + 4));
    for (Item& item : items) {
      item.key = in.get<std::uint16_t>();
      item.value = in.string(20);
    }
  }
};

void codec(std::span<const std::byte> bytes) {
  Everything message;
  if (!decode_message(bytes, message)) return;
  std::vector<std::byte> again(Everything::kMaxBytes);
  const auto size = encode_message(message, std::span(again));
  YONDER_CHECK(size == bytes.size() && std::memcmp(again.data(), bytes.data(), bytes.size()) == 0,
               "what was accepted is written as it was read");
}

void request(std::span<const std::byte> bytes) {
  RequestHeader header;
  if (read_request(bytes, header) != ErrorCode::kOk) return;
  YONDER_CHECK(kRequestHeaderBytes + header.payload_bytes() == bytes.size(), "the payload is what arrived");
  YONDER_CHECK(header.answer_limit() <= kMaxPayloadBytes, "no answer is longer than a payload can be");
}

void response(std::span<const std::byte> bytes) {
  ResponseHeader header;
  if (read_response(bytes, header) != ErrorCode::kOk) return;
  YONDER_CHECK(kResponseHeaderBytes + header.payload_bytes() == bytes.size(), "the payload is what arrived");
}

void greeting(std::span<const std::byte> bytes) {
  const Result<Greeting> read = read_greeting(bytes);
  YONDER_CHECK(!read || (read->credits > 0 && read->max_response <= kMaxPayloadBytes), "limits are usable");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  // A copy of exactly this size, so that one byte too far is seen.
  const std::vector<std::byte> input(reinterpret_cast<const std::byte*>(data) + 1,
                                     reinterpret_cast<const std::byte*>(data) + size);
  switch (data[0] % 4) {
    case 0:
      codec(input);
      break;
    case 1:
      request(input);
      break;
    case 2:
      response(input);
      break;
    default:
      greeting(input);
  }
  return 0;
}
