#include "bench/heap/far_node.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <unistd.h>

#include <array>
#include <memory>

#include "yonder/fabric/open/open.h"
#include "yonder/node/server.h"

namespace yonder::bench::heap {
namespace {

Result<std::unique_ptr<node::Server>> open_server(fabric::Fabric& fabric, const FarNodeOptions& wanted) {
  node::NodeOptions options;
  options.ports = {{.fabric = &fabric, .address = wanted.address}};
  options.heap.limit = Bytes(std::uint64_t{64} << 20);
  options.compaction.automatic = false;
  options.extents.bytes = wanted.memory;
  options.functions = wanted.functions;
  // Its functions have the same core.
  if (!wanted.functions.directory.empty()) options.spin = Duration(0);
  return node::Server::create(options);
}

// The child's side: says where it listens, and serves until it is killed.
int serve(const FarNodeOptions& options, int answer) {
  if (options.in_child) options.in_child();
  auto fabric = fabric::open(options.address);
  if (!fabric) return 1;
  const auto server = open_server(**fabric, options);
  if (!server) {
    fmt::print(stderr, "heap bench: no node: {}\n", server.error().to_string());
    return 1;
  }
  const std::string address = (*server)->address();
  if (::write(answer, address.data(), address.size()) < 0) return 1;
  ::close(answer);
  for (;;) ::pause();
}

}  // namespace

Result<FarNode> FarNode::start(const FarNodeOptions& options) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail(ErrorCode::kOsError, "heap bench: pipe", errno);
  const os::Fd from_child(ends[0]);
  os::Fd to_parent(ends[1]);
  YONDER_TRY(child, os::Child::fork([&] { return serve(options, to_parent.get()); }));
  to_parent.reset();
  std::array<char, 256> text{};
  const ssize_t got = ::read(from_child.get(), text.data(), text.size());
  if (got <= 0) return fail(ErrorCode::kClosed, "heap bench: the memory node did not start");
  return FarNode(std::move(child), std::string(text.data(), static_cast<std::size_t>(got)));
}

}  // namespace yonder::bench::heap
