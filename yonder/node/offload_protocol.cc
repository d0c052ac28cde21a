#include "yonder/node/offload_protocol.h"

namespace yonder::node::protocol {

void CallFunctionRequest::encode(rpc::Writer& out) const {
  out.string(extent, kMaxExtentName);
  out.put(address);
  out.string(function, offload::kMaxFunctionName);
  out.put(version);
  out.put(time_us);
  out.bytes(arguments, offload::kMaxArgumentBytes);
}

void CallFunctionRequest::decode(rpc::Reader& in) {
  extent = in.string(kMaxExtentName);
  address = in.get<std::uint64_t>();
  function = in.string(offload::kMaxFunctionName);
  version = in.get<std::uint32_t>();
  time_us = in.get<std::uint64_t>();
  arguments = in.bytes(offload::kMaxArgumentBytes);
}

void CallFunctionAnswer::encode(rpc::Writer& out) const {
  out.put(code);
  out.put(detail);
  out.bytes(result, offload::kMaxResultBytes);
}

void CallFunctionAnswer::decode(rpc::Reader& in) {
  code = in.get<ErrorCode>();
  detail = in.get<std::int64_t>();
  const std::span<const std::byte> bytes = in.bytes(offload::kMaxResultBytes);
  result.assign(bytes.begin(), bytes.end());
}

}  // namespace yonder::node::protocol
