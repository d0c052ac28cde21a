// Bytes that strangers send where functions run: a client's request to the node, the node's
// answer to a client, the name of a function. The first byte chooses. (Replies of processes that
// run foreign code: function_test.)
// What is accepted comes out byte for byte when it is written again, a name leads to a file
// of the directory and to no other, and every request gets one outcome: an error with a name,
// because the directory is empty.

#include <stdlib.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "yonder/base/check.h"
#include "yonder/node/offload_protocol.h"
#include "yonder/offload/function_name.h"
#include "yonder/offload/host.h"

namespace {

using namespace yonder;
using node::protocol::CallFunctionAnswer;
using node::protocol::CallFunctionRequest;

template <typename Message>
bool round_trip(std::span<const std::byte> bytes, Message& message) {
  if (!rpc::decode_message(bytes, message)) return false;
  YONDER_CHECK(bytes.size() <= Message::kMaxBytes, "nothing longer is accepted");
  std::vector<std::byte> again(bytes.size());
  const auto length = rpc::encode_message(message, again);
  YONDER_CHECK(length && *length == bytes.size(), "what was read can be written");
  YONDER_CHECK(bytes.empty() || std::memcmp(again.data(), bytes.data(), bytes.size()) == 0,
               "and is the same");
  return true;
}

// Made once, on first use; the directory is left to whoever cleans up after programs.
offload::Host& host() {
  static const std::unique_ptr<offload::Host> made = [] {
    std::string directory = "/tmp/yonder-offload-fuzz-XXXXXX";
    YONDER_CHECK(::mkdtemp(directory.data()) != nullptr, "a directory can be made");
    auto host = offload::Host::create({.directory = directory, .program = "/bin/false"});
    YONDER_CHECK(host.has_value(), "a host can be made");
    return *std::move(host);
  }();
  return *made;
}

void try_name(std::string_view text) {
  const auto name = offload::FunctionName::parse(text);
  if (!name) return;
  YONDER_CHECK(name->library + "." + name->function == text, "a name is its two parts");
  YONDER_CHECK(name->file().find('/') == std::string::npos && name->file() != "." && name->file() != "..",
               "a file of the directory");
}

void try_request(std::span<const std::byte> bytes) {
  CallFunctionRequest request;
  if (!round_trip(bytes, request)) return;
  try_name(request.function);
  std::promise<ErrorCode> told;  // A second outcome throws, and ends the program.
  host().call({.function = request.function,
               .version = request.version,
               .memory = std::string(request.extent),
               .address = request.address,
               .arguments = request.arguments,
               .open_memory = [] { return fail(ErrorCode::kNotFound, "no memory"); }},
              [&told](const offload::Outcome& outcome) { told.set_value(outcome.code); });
  std::future<ErrorCode> code = told.get_future();
  YONDER_CHECK(code.wait_for(std::chrono::seconds(5)) == std::future_status::ready, "every call is answered");
  YONDER_CHECK(code.get() != ErrorCode::kOk, "there is no such function");
}

void try_answer(std::span<const std::byte> bytes) {
  CallFunctionAnswer answer;
  if (!round_trip(bytes, answer)) return;
  // A code that we do not know is an error as any other: it can be shown.
  YONDER_CHECK(!Error(answer.code, "offload", answer.detail).to_string().empty(), "an error has a text");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data + 1), size - 1);
  switch (data[0] % 3) {
    case 0:
      try_request(bytes);
      break;
    case 1:
      try_answer(bytes);
      break;
    default:
      try_name({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  return 0;
}
