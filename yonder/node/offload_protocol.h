#pragma once
// CallFunction: a client asks the node to run a function on an extent of its own.
//
// The request names the extent, the address at which the client has it, the function and
// its version, and how long it may take; then come the arguments. What becomes of it is in
// the answer: a code and a number (docs/errors.md, 600–699), and the result. Errors of the
// request itself (kNotFound: no such extent; kUnsupported: a node without functions)
// refuse it.
//
// Concurrency: values. Lifetime: views in a decoded request live as long as its bytes.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "yonder/base/error.h"
#include "yonder/node/extents.h"
#include "yonder/offload/function.h"
#include "yonder/offload/function_name.h"
#include "yonder/rpc/message.h"

namespace yonder::node::protocol {

struct CallFunctionRequest {
  static constexpr std::size_t kMaxBytes =
      4 + kMaxExtentName + 8 + 4 + offload::kMaxFunctionName + 4 + 8 + 4 + offload::kMaxArgumentBytes;
  std::string_view extent;
  std::uint64_t address = 0;
  std::string_view function;
  std::uint32_t version = 0;
  std::uint64_t time_us = 0;  // How long it may take, from when the node has it.
  std::span<const std::byte> arguments;

  void encode(rpc::Writer& out) const;
  void decode(rpc::Reader& in);
};

struct CallFunctionAnswer {
  static constexpr std::size_t kMaxBytes = 2 + 8 + 4 + offload::kMaxResultBytes;
  ErrorCode code = ErrorCode::kOk;
  std::int64_t detail = 0;
  std::vector<std::byte> result;

  void encode(rpc::Writer& out) const;
  void decode(rpc::Reader& in);
};

struct CallFunction : rpc::MethodOf<56, CallFunctionRequest, CallFunctionAnswer> {};

}  // namespace yonder::node::protocol
