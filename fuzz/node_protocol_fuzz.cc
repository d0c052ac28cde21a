// Feeds arbitrary bytes to everything that a memory node and its clients read of each
// other: requests, batches' items, the description of a node. The first byte chooses.
// What is accepted comes out byte for byte when it is written again, and a description
// can be computed with.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "yonder/base/check.h"
#include "yonder/node/protocol.h"

namespace {

using namespace yonder;
using namespace yonder::node::protocol;

template <typename Message>
bool round_trip(std::span<const std::byte> bytes, Message& message) {
  if (!rpc::decode_message(bytes, message)) return false;
  std::vector<std::byte> again(bytes.size());
  const auto length = rpc::encode_message(message, again);
  YONDER_CHECK(length && *length == bytes.size(), "what was read can be written");
  YONDER_CHECK(std::memcmp(again.data(), bytes.data(), bytes.size()) == 0, "and is the same");
  return true;
}

template <typename Message>
void try_as(std::span<const std::byte> bytes) {
  Message message;
  (void)round_trip(bytes, message);
}

void try_description(std::span<const std::byte> bytes) {
  NodeDescription description;
  if (!round_trip(bytes, description)) return;
  for (const ClassShape& shape : description.classes) {
    YONDER_CHECK(std::uint64_t{shape.slots} * shape.slot_bytes <= shape.frame_bytes, "slots lie in frames");
    YONDER_CHECK(shape.frame_bytes <= description.superblock_bytes, "frames lie in superblocks");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data + 1), size - 1);
  switch (data[0] % 6) {
    case 0:
      try_description(bytes);
      break;
    case 1:
      try_as<WriteRequest>(bytes);
      break;
    case 2:
      try_as<PutRequest>(bytes);
      break;
    case 3:
      try_as<ReadRequest>(bytes);
      break;
    case 4:
      try_as<CommitRequest>(bytes);
      break;
    default:
      try_as<StageReadAnswer>(bytes);
  }
  return 0;
}
