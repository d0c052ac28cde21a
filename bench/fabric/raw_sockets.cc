#include "bench/fabric/raw_sockets.h"

#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "yonder/base/check.h"

namespace yonder::bench {
namespace {

constexpr std::size_t kBufferBytes = 128 * 1024;
constexpr std::size_t kMemoryBytes = 1 << 20;

}  // namespace

void keep_this_thread_on(unsigned cpu) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(cpu, &only);
  ::sched_setaffinity(0, sizeof only, &only);
}

Result<RawPair> RawPair::connect(std::uint32_t read_bytes) {
  YONDER_TRY(addresses, os::SocketAddress::resolve("127.0.0.1:0", {.for_listening = true}));
  YONDER_TRY(listener, os::Socket::listen(addresses.front(), {}));
  YONDER_TRY(bound, listener.local_address());
  YONDER_TRY(client, os::Socket::connect(bound, {}, {}));
  YONDER_TRY(server, listener.accept({}));
  YONDER_TRY_VOID(client.set_no_delay(true));
  YONDER_TRY_VOID(server.set_no_delay(true));
  return RawPair(std::move(client), std::move(server), read_bytes);
}

RawPair::RawPair(os::Socket client, os::Socket server, std::uint32_t read_bytes)
    : client_(std::move(client)),
      server_(std::move(server)),
      read_bytes_(read_bytes),
      memory_(kMemoryBytes),
      requests_(kBufferBytes),
      client_input_(kBufferBytes),
      destination_(read_bytes),
      server_input_(kBufferBytes),
      replies_(kBufferBytes / kRequestBytes * (kReplyHeaderBytes + read_bytes)) {}

RawPair::Serving::Serving(RawPair& pair, unsigned cpu)
    : pair_(pair), thread_([this, cpu] {
        keep_this_thread_on(cpu);
        while (!stop_.load(std::memory_order_relaxed)) pair_.serve_once();
      }) {}

RawPair::Serving::~Serving() {
  stop_.store(true);
  thread_.join();
}

std::size_t RawPair::receive(const os::Socket& socket, std::span<std::byte> into) {
  const ssize_t count = ::recv(socket.fd().get(), into.data(), into.size(), MSG_DONTWAIT);
  YONDER_CHECK(count > 0 || (count < 0 && errno == EAGAIN), "the baseline lost its connection");
  return count > 0 ? static_cast<std::size_t>(count) : 0;
}

void RawPair::send_all(const os::Socket& socket, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto count = socket.try_send(bytes);
    YONDER_CHECK(count.has_value(), "the baseline lost its connection");
    bytes = bytes.subspan(*count);
  }
}

void RawPair::serve_once() {
  server_have_ += receive(server_, std::span(server_input_).subspan(server_have_));
  const std::size_t whole = server_have_ / kRequestBytes;
  for (std::size_t i = 0; i < whole; ++i) {
    std::uint64_t offset = 0;
    std::memcpy(&offset, server_input_.data() + i * kRequestBytes + 24, sizeof offset);
    std::byte* reply = replies_.data() + i * reply_bytes();
    std::memcpy(reply, server_input_.data() + i * kRequestBytes, kReplyHeaderBytes);
    std::memcpy(reply + kReplyHeaderBytes, memory_.data() + offset % (kMemoryBytes - read_bytes_),
                read_bytes_);
  }
  server_have_ -= whole * kRequestBytes;
  if (server_have_ != 0 && whole != 0)
    std::memmove(server_input_.data(), server_input_.data() + whole * kRequestBytes, server_have_);
  send_all(server_, std::span(replies_).first(whole * reply_bytes()));
}

void RawPair::send(std::size_t requests) {
  send_all(client_, std::span(requests_).first(requests * kRequestBytes));
}

void RawPair::ask() {
  send(1);
  std::size_t have = 0;
  while (have < reply_bytes()) have += receive(client_, std::span(client_input_).subspan(have));
}

// Copies the payloads to where the reader wants them, keeps what is incomplete.
void RawPair::take_replies(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    std::memcpy(destination_.data(), client_input_.data() + i * reply_bytes() + kReplyHeaderBytes,
                read_bytes_);
  const std::size_t used = count * reply_bytes();
  std::memmove(client_input_.data(), client_input_.data() + used,
               std::min(reply_bytes(), client_input_.size() - used));
}

}  // namespace yonder::bench
