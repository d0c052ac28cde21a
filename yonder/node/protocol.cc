#include "yonder/node/protocol.h"

#include <array>

#include "yonder/node/header_word.h"
#include "yonder/node/offload_protocol.h"

namespace yonder::node::protocol {
namespace {

using fabric::RegionToken;

void put_token(rpc::Writer& out, const RegionToken& token) {
  std::array<std::byte, RegionToken::kEncodedBytes> bytes;
  token.encode(bytes);
  out.fixed(bytes);
}

RegionToken get_token(rpc::Reader& in) {
  const auto token = RegionToken::decode(in.fixed(RegionToken::kEncodedBytes));
  if (token) return *token;
  in.give_up();
  return {};
}

bool makes_sense(const ClassShape& shape, std::uint64_t superblock_bytes) {
  return shape.slot_bytes >= 2 * kHeaderBytes && shape.slot_bytes % 8 == 0 && shape.slots != 0 &&
         shape.slots <= (std::uint32_t{1} << kSlotBits) && shape.block_shift <= kSlotBits &&
         std::uint64_t{shape.slots} * shape.slot_bytes <= shape.frame_bytes &&
         shape.frame_bytes <= superblock_bytes;
}

bool makes_sense(const Views& views, const std::vector<ClassShape>& classes) {
  if (views.kind == ViewKind::kNone) return true;
  if (views.stride == 0 || views.stride % kUnitBytes != 0 || views.stride > kMaxFrameBytes) return false;
  for (const ClassShape& shape : classes) {
    if (shape.frame_bytes > views.stride) return false;
  }
  return true;
}

}  // namespace

void NodeDescription::encode(rpc::Writer& out) const {
  out.put(node);
  out.put(life);
  out.put(validator);
  out.put(natural_ids);
  out.put(max_data);
  out.put(superblock_bytes);
  put_token(out, block_table);
  out.put(views.kind);
  if (views.kind != ViewKind::kNone) {
    out.put(views.stride);
    put_token(out, views.region);
  }
  out.count(classes.size(), kMaxClasses);
  for (const ClassShape& shape : classes) {
    out.put(shape.slot_bytes);
    out.put(shape.frame_bytes);
    out.put(shape.slots);
    out.put(shape.block_shift);
  }
  out.put(superblock_count);
  out.count(superblocks.size(), kSuperblocksPerAnswer);
  for (const RegionToken& token : superblocks) put_token(out, token);
}

void NodeDescription::decode(rpc::Reader& in) {
  node = in.get<NodeId>();
  life = in.get<LifeTag>();
  validator = in.get_enum(Validator::kReread, Validator::kChecksum);
  natural_ids = in.get<bool>();
  max_data = in.get<std::uint32_t>();
  superblock_bytes = in.get<std::uint64_t>();
  block_table = get_token(in);
  views.kind = in.get_enum(ViewKind::kNone, ViewKind::kKeys);
  if (views.kind != ViewKind::kNone) {
    views.stride = in.get<std::uint64_t>();
    views.region = get_token(in);
  }
  if (superblock_bytes == 0 || superblock_bytes % kUnitBytes != 0 || max_data == 0) in.give_up();
  classes.resize(in.count(kMaxClasses, sizeof(ClassShape)));
  for (ClassShape& shape : classes) {
    shape.slot_bytes = in.get<std::uint32_t>();
    shape.frame_bytes = in.get<std::uint32_t>();
    shape.slots = in.get<std::uint32_t>();
    shape.block_shift = in.get<std::uint32_t>();
    if (!makes_sense(shape, superblock_bytes)) in.give_up();
  }
  if (!makes_sense(views, classes)) in.give_up();
  superblock_count = in.get<std::uint32_t>();
  superblocks.resize(in.count(kSuperblocksPerAnswer, RegionToken::kEncodedBytes));
  for (RegionToken& token : superblocks) token = get_token(in);
}

void WriteRequest::encode(rpc::Writer& out) const {
  out.put(object.low());
  out.put(object.high());
  out.put(conditional);
  out.put(expected);
  out.bytes(data, kMaxDataBytes);
}

void WriteRequest::decode(rpc::Reader& in) {
  const auto low = in.get<std::uint64_t>();
  object = ObjectPtr::from_words(low, in.get<std::uint64_t>());
  conditional = in.get<bool>();
  expected = in.get<std::uint32_t>();
  data = in.bytes(kMaxDataBytes);
}

void PutRequest::encode(rpc::Writer& out) const {
  out.put(ticket);
  out.put(offset);
  out.bytes(data, kMaxDataBytes);
}

void PutRequest::decode(rpc::Reader& in) {
  ticket = in.get<std::uint64_t>();
  offset = in.get<std::uint64_t>();
  data = in.bytes(kMaxDataBytes);
}

void ExtentRequest::encode(rpc::Writer& out) const {
  out.string(name, kMaxExtentName);
  out.put(bytes);
}

void ExtentRequest::decode(rpc::Reader& in) {
  name = in.string(kMaxExtentName);
  bytes = in.get<std::uint64_t>();
}

void TokenAnswer::encode(rpc::Writer& out) const { put_token(out, token); }

void TokenAnswer::decode(rpc::Reader& in) { token = get_token(in); }

std::string_view method_name(rpc::MethodId method) {
  struct Named {
    rpc::MethodId method;
    std::string_view name;
  };
  static constexpr Named kNames[] = {{Describe::kMethod, "describe"},
                                     {Alloc::kMethod, "alloc"},
                                     {Free::kMethod, "free"},
                                     {Find::kMethod, "find"},
                                     {Release::kMethod, "release"},
                                     {Write::kMethod, "write"},
                                     {Stage::kMethod, "stage"},
                                     {StageRead::kMethod, "stage_read"},
                                     {Put::kMethod, "put"},
                                     {Commit::kMethod, "commit"},
                                     {Drop::kMethod, "drop"},
                                     {kRead, "read"},
                                     {kGet, "get"},
                                     {kBatch, "batch"},
                                     {MakeExtent::kMethod, "make_extent"},
                                     {OpenExtent::kMethod, "open_extent"},
                                     {DropExtent::kMethod, "drop_extent"},
                                     {CallFunction::kMethod, "call_function"}};
  for (const Named& named : kNames) {
    if (named.method == method) return named.name;
  }
  return {};
}

}  // namespace yonder::node::protocol
