#include "yonder/node/keeper_server.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "yonder/base/log.h"
#include "yonder/node/internal/keeper_protocol.h"
#include "yonder/os/fd_passing.h"
#include "yonder/os/steady_clock.h"

namespace yonder::node {

using internal::KeeperAnswer;
using internal::KeeperRequest;
using internal::KeeperRequestKind;

namespace {

constexpr std::uint64_t kListenerToken = 0;
constexpr std::uint64_t kStopToken = 1;
constexpr std::uint64_t kFirstClient = 2;
// A client that does not take its answer holds up the others for so long, once.
constexpr Duration kSendTimeout = std::chrono::seconds(1);

bool is_file(const std::string& path) { return !path.starts_with('@'); }

// A socket file whose owner is gone stays behind; one whose owner lives must not be taken.
Result<os::Socket> listen_at(const std::string& path) {
  YONDER_TRY(address, os::SocketAddress::unix_name(path));
  auto listener = os::Socket::listen(address, {.kind = os::SocketKind::kSeqpacket, .backlog = 64});
  if (listener || listener.error() != ErrorCode::kAlreadyExists || !is_file(path)) return listener;
  const os::SteadyClock clock;
  const auto owner = os::Socket::connect(address, {.kind = os::SocketKind::kSeqpacket},
                                         Deadline::after(clock, kSendTimeout));
  if (owner || owner.error() != ErrorCode::kConnectionRefused) return listener;
  ::unlink(path.c_str());
  return os::Socket::listen(address, {.kind = os::SocketKind::kSeqpacket, .backlog = 64});
}

}  // namespace

Result<std::unique_ptr<KeeperServer>> KeeperServer::create(const Options& options) {
  YONDER_TRY(listener, listen_at(options.path));
  // Before anybody is answered; who connected meanwhile is known by its user anyway.
  if (is_file(options.path) && ::chmod(options.path.c_str(), S_IRUSR | S_IWUSR) != 0)
    return std::unexpected(Error::from_errno("chmod"));
  YONDER_TRY(epoll, os::Epoll::create());
  YONDER_TRY_VOID(epoll.add(listener.fd(), os::kEpollReadable, kListenerToken));
  return std::unique_ptr<KeeperServer>(new KeeperServer(options, std::move(listener), std::move(epoll)));
}

KeeperServer::KeeperServer(const Options& options, os::Socket listener, os::Epoll epoll)
    : options_(options),
      listener_(std::move(listener)),
      epoll_(std::move(epoll)),
      next_token_(kFirstClient) {}

KeeperServer::~KeeperServer() {
  if (is_file(options_.path)) ::unlink(options_.path.c_str());
}

std::size_t KeeperServer::file_count() const {
  std::size_t count = 0;
  for (const auto& [node, files] : nodes_) count += files.size();
  return count;
}

Result<void> KeeperServer::serve(Deadline deadline, const os::Fd* stop) {
  const os::SteadyClock clock;
  if (stop != nullptr) YONDER_TRY_VOID(epoll_.add(*stop, os::kEpollReadable, kStopToken));
  bool stopping = false;
  while (!stopping && !deadline.passed(clock.now())) {
    std::array<os::EpollEvent, os::Epoll::kMaxEvents> room;
    YONDER_TRY(events, epoll_.wait(room, deadline));
    for (const os::EpollEvent& event : events) {
      if (event.token == kListenerToken) {
        accept_clients();
      } else if (event.token == kStopToken) {
        stopping = true;
      } else if (const auto at = clients_.find(event.token); at != clients_.end()) {
        if (!answer_one(at->second)) drop(event.token);
      }
    }
  }
  return stop != nullptr ? epoll_.remove(*stop) : Result<void>();
}

void KeeperServer::accept_clients() {
  for (;;) {
    auto client = listener_.try_accept();
    if (!client || !client->valid()) return;
    const auto peer = client->peer_credentials();
    // Refused by closing: it is owed no answer.
    if (!peer || peer->uid != ::geteuid() || clients_.size() >= options_.max_clients) continue;
    const std::uint64_t token = next_token_++;
    if (epoll_.add(client->fd(), os::kEpollReadable, token))
      clients_.emplace(token, Client{.socket = *std::move(client), .node = {}});
  }
}

void KeeperServer::drop(std::uint64_t token) {
  const auto at = clients_.find(token);
  (void)epoll_.remove(at->second.socket.fd());  // It closes anyway.
  if (!at->second.node.empty())
    log_debug("keeper", "a node has left", {{"node", std::string_view(at->second.node)}});
  clients_.erase(at);
}

bool KeeperServer::answer_one(Client& client) {
  const os::SteadyClock clock;
  KeeperRequest request;
  auto received = os::receive_with_fds(client.socket, internal::bytes_of(request), 1,
                                       Deadline::after(clock, Duration(0)));
  if (!received) return received.error() == ErrorCode::kDeadlineExceeded;
  if (received->bytes != sizeof request || request.magic != internal::kKeeperMagic) return false;
  os::Fd file = received->fds.empty() ? os::Fd() : std::move(received->fds.front());
  const Result<const KeptFile*> found = execute(client, request, std::move(file));
  KeeperAnswer answer{.status = static_cast<std::uint32_t>(found ? ErrorCode::kOk : found.error().code())};
  int raw = -1;
  if (found && *found != nullptr) {
    answer.file = internal::to_name((*found)->name);
    raw = (*found)->fd.get();
  }
  return os::send_with_fds(client.socket, internal::bytes_of(answer), {&raw, raw >= 0 ? 1u : 0u},
                           Deadline::after(clock, kSendTimeout))
      .has_value();
}

bool KeeperServer::is_leased(const std::string& node) {
  for (auto& [token, client] : clients_) {
    if (client.node != node) continue;
    std::byte byte;
    if (::recv(client.socket.fd().get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0) return true;
    client.node.clear();  // Its end is among the events to come.
  }
  return false;
}

bool KeeperServer::take_lease(Client& client, const std::string& node) {
  if (client.node == node) return true;
  if (!client.node.empty() || is_leased(node)) return false;
  client.node = node;
  log_debug("keeper", "a node has come", {{"node", std::string_view(node)}});
  return true;
}

Result<const KeptFile*> KeeperServer::execute(Client& client, const KeeperRequest& request, os::Fd file) {
  const std::string node = internal::to_text(request.node);
  const std::string name = internal::to_text(request.file);
  if (node.empty()) return fail(ErrorCode::kInvalidArgument, "a node without a name");
  if (!take_lease(client, node)) return fail(ErrorCode::kAlreadyExists, "the node has a process");
  std::vector<KeptFile>& files = nodes_[node];
  switch (request.kind) {
    case KeeperRequestKind::kList:
      if (request.index >= files.size()) return fail(ErrorCode::kNotFound, "a file of this node");
      return &files[request.index];
    case KeeperRequestKind::kKeep: {
      if (name.empty() || !file.valid()) return fail(ErrorCode::kInvalidArgument, "a file to be kept");
      const auto old = std::ranges::find(files, name, &KeptFile::name);
      if (old != files.end()) {
        old->fd = std::move(file);
      } else if (file_count() >= options_.max_files) {
        return fail(ErrorCode::kResourceExhausted, "files of a keeper");
      } else {
        files.push_back({name, std::move(file)});
      }
      return nullptr;
    }
    case KeeperRequestKind::kForget:
      files.clear();
      return nullptr;
  }
  return fail(ErrorCode::kInvalidArgument, "a request to a keeper");
}

}  // namespace yonder::node
