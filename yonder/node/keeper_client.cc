#include "yonder/node/keeper_client.h"

#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "yonder/node/internal/keeper_protocol.h"
#include "yonder/os/fd_passing.h"
#include "yonder/os/steady_clock.h"

namespace yonder::node {

using internal::KeeperAnswer;
using internal::KeeperRequest;
using internal::KeeperRequestKind;

struct KeeperClient::Exchange {
  KeeperRequestKind kind;
  std::uint64_t index = 0;
  std::string file;
  const os::Fd* descriptor = nullptr;
};

Result<std::unique_ptr<KeeperClient>> KeeperClient::connect(const Options& options) {
  if (options.node.empty() || options.node.size() >= internal::kKeeperNameBytes)
    return fail(ErrorCode::kInvalidArgument, "the name under which a keeper knows a node");
  std::unique_ptr<KeeperClient> client(new KeeperClient(options));
  sync::LockGuard lock(client->mutex_);
  YONDER_TRY_VOID(client->reconnect());
  return client;
}

Deadline KeeperClient::deadline() const {
  const os::SteadyClock clock;
  return Deadline::after(clock, options_.timeout);
}

// Takes the lease with its first question.
Result<void> KeeperClient::reconnect() {
  YONDER_TRY(address, os::SocketAddress::unix_name(options_.path));
  YONDER_TRY(socket, os::Socket::connect(address, {.kind = os::SocketKind::kSeqpacket}, deadline()));
  socket_ = std::move(socket);
  const auto first = ask({.kind = KeeperRequestKind::kList});
  if (first || first.error() == ErrorCode::kNotFound) return {};
  return std::unexpected(first.error());
}

Result<KeptFile> KeeperClient::ask(const Exchange& exchange) {
  KeeperRequest request{.kind = exchange.kind,
                        .index = exchange.index,
                        .node = internal::to_name(options_.node),
                        .file = internal::to_name(exchange.file)};
  const int raw = exchange.descriptor != nullptr ? exchange.descriptor->get() : -1;
  YONDER_TRY_VOID(os::send_with_fds(socket_, internal::bytes_of(request),
                                    {&raw, exchange.descriptor != nullptr ? 1u : 0u}, deadline()));
  KeeperAnswer answer;
  YONDER_TRY(received, os::receive_with_fds(socket_, internal::bytes_of(answer), 1, deadline()));
  if (received.bytes != sizeof answer || answer.magic != internal::kKeeperMagic)
    return fail(ErrorCode::kProtocolMismatch, "answer of a keeper");
  if (answer.status != 0) {
    const auto code = static_cast<ErrorCode>(answer.status);
    return fail(is_known(code) ? code : ErrorCode::kProtocolMismatch, "ask the keeper");
  }
  KeptFile file{.name = internal::to_text(answer.file), .fd = {}};
  if (!received.fds.empty()) file.fd = std::move(received.fds.front());
  return file;
}

Result<std::vector<KeptFile>> KeeperClient::files() {
  sync::LockGuard lock(mutex_);
  std::vector<KeptFile> out;
  kept_.clear();
  for (;;) {
    auto file = ask({.kind = KeeperRequestKind::kList, .index = out.size()});
    if (!file && file.error() == ErrorCode::kNotFound) return out;
    if (!file) return std::unexpected(file.error());
    YONDER_TRY(copy, file->fd.duplicate());
    kept_.push_back({file->name, std::move(copy)});
    out.push_back(*std::move(file));
  }
}

Result<void> KeeperClient::hand_over(const std::string& name, const os::Fd& file) {
  return outcome_of(ask({.kind = KeeperRequestKind::kKeep, .file = name, .descriptor = &file}));
}

Result<void> KeeperClient::keep(const std::string& name, const os::Fd& file) {
  sync::LockGuard lock(mutex_);
  YONDER_TRY(copy, file.duplicate());
  YONDER_TRY_VOID(hand_over(name, file));
  std::erase_if(kept_, [&](const KeptFile& old) { return old.name == name; });
  kept_.push_back({name, std::move(copy)});
  return {};
}

Result<void> KeeperClient::forget_all() {
  sync::LockGuard lock(mutex_);
  kept_.clear();
  return outcome_of(ask({.kind = KeeperRequestKind::kForget}));
}

// Nothing comes that nobody asked for: what can be read is the end.
bool KeeperClient::is_connected() const {
  std::byte byte;
  return ::recv(socket_.fd().get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

Result<void> KeeperClient::refresh() {
  sync::LockGuard lock(mutex_);
  if (is_connected()) return {};
  YONDER_TRY_VOID(reconnect());
  YONDER_TRY_VOID(outcome_of(ask({.kind = KeeperRequestKind::kForget})));
  // The record comes last, as at the first time: it says that the others are there.
  for (const bool is_record : {false, true}) {
    for (const KeptFile& file : kept_) {
      if ((file.name == "record") == is_record) YONDER_TRY_VOID(hand_over(file.name, file.fd));
    }
  }
  return {};
}

}  // namespace yonder::node
