#include "yonder/os/socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "yonder/os/fd_passing.h"
#include "yonder/os/memfd.h"
#include "yonder/os/steady_clock.h"
#include "yonder/os/wait.h"

namespace yonder::os {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Deadline in(Duration duration) { return Deadline::at(SteadyClock::read() + duration); }
Deadline soon() { return in(milliseconds(5)); }
Deadline later() { return in(seconds(30)); }

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string unique_name() {
  static int next = 0;
  return "@yonder-os-test-" + std::to_string(::getpid()) + "-" + std::to_string(++next);
}

Socket tcp_listener(const char* address = "127.0.0.1:0") {
  return Socket::listen(SocketAddress::resolve(address, {.for_listening = true}).value()[0], {}).value();
}

struct Connected {
  Socket client;
  Socket server;
};

Connected connect_to(const Socket& listener, SocketKind kind = SocketKind::kStream) {
  Socket client = Socket::connect(listener.local_address().value(), {.kind = kind}, later()).value();
  return {.client = std::move(client), .server = listener.accept(later()).value()};
}

std::string receive_text(const Socket& socket, std::size_t length) {
  std::string text(length, '\0');
  EXPECT_TRUE(socket.receive_all(std::as_writable_bytes(std::span(text)), later()));
  return text;
}

int open_descriptors() {
  int count = 0;
  for (int raw = 0; raw < 4096; ++raw) count += ::fcntl(raw, F_GETFD) >= 0 ? 1 : 0;
  return count;
}

TEST(Socket, TcpCarriesBytesBothWaysOnAFreePort) {
  for (const char* address : {"127.0.0.1:0", "[::1]:0"}) {
    const Socket listener = tcp_listener(address);
    const auto [client, server] = connect_to(listener);
    EXPECT_NE(listener.local_address().value().port(), 0);
    ASSERT_TRUE(client.send_all(bytes_of("ping"), later()));
    EXPECT_EQ(receive_text(server, 4), "ping");
    ASSERT_TRUE(server.send_all(bytes_of("pong"), later()));
    EXPECT_EQ(receive_text(client, 4), "pong");
    EXPECT_EQ(client.peer_address().value().to_string(), listener.local_address().value().to_string());
    EXPECT_EQ(client.local_address().value().to_string(), server.peer_address().value().to_string());
  }
}

TEST(Socket, NothingToReceiveIsACountOfZero) {
  const auto [client, server] = connect_to(tcp_listener());
  std::array<std::byte, 8> buffer{};
  EXPECT_EQ(server.try_receive(buffer).value(), 0u);
  EXPECT_EQ(server.receive_all(buffer, soon()).error(), ErrorCode::kDeadlineExceeded);
}

TEST(Socket, VectoredTransfersKeepTheOrder) {
  const auto [client, server] = connect_to(tcp_listener());
  std::string a = "far";
  std::string b = "memory";
  const iovec out[] = {{a.data(), a.size()}, {b.data(), b.size()}};
  ASSERT_EQ(client.try_send(out).value(), 9u);
  EXPECT_EQ(receive_text(server, 9), "farmemory");
}

TEST(Socket, EndOfStreamIsAnErrorAndNotACount) {
  auto [client, server] = connect_to(tcp_listener());
  ASSERT_TRUE(client.shut_down_sending());
  std::array<std::byte, 8> buffer{};
  EXPECT_EQ(server.receive_all(buffer, later()).error(), ErrorCode::kConnectionLost);
  ASSERT_TRUE(server.send_all(bytes_of("still"), later()));
  EXPECT_EQ(receive_text(client, 5), "still");
}

TEST(Socket, SendingToAGonePeerIsAnErrorAndNoSignal) {
  auto [client, server] = connect_to(tcp_listener());
  server = Socket();
  const std::vector<std::byte> much(1 << 20);
  Result<void> sent;
  for (int i = 0; i < 100 && sent; ++i) sent = client.send_all(much, later());
  EXPECT_EQ(sent.error(), ErrorCode::kConnectionLost);
}

TEST(Socket, APeerThatStopsReadingCostsTheDeadlineAndNoMore) {
  const auto [client, server] = connect_to(tcp_listener());
  const std::vector<std::byte> much(64 << 20);
  EXPECT_EQ(client.send_all(much, in(milliseconds(20))).error(), ErrorCode::kDeadlineExceeded);
}

TEST(Socket, BeginsToConnectAndSaysLaterHowItEnded) {
  const Socket listener = Socket::listen(SocketAddress::resolve("127.0.0.1:0").value().front(), {}).value();
  const SocketAddress address = listener.local_address().value();
  const Socket good = Socket::begin_connect(address, {}).value();
  ASSERT_TRUE(wait_ready(good.fd().get(), Ready::kWritable, later()));
  EXPECT_EQ(good.try_send(std::as_bytes(std::span("hello", 5))).value(), 5u);
  const SocketAddress nobody = [] {
    return Socket::listen(SocketAddress::resolve("127.0.0.1:0").value().front(), {})
        .value()
        .local_address()
        .value();
  }();
  const auto bad = Socket::begin_connect(nobody, {});
  // Known at once on the loopback of some kernels.
  if (bad) {
    ASSERT_TRUE(wait_ready(bad->fd().get(), Ready::kWritable, later()));
    EXPECT_FALSE(bad->try_send(std::as_bytes(std::span("hello", 5))));
  } else {
    EXPECT_EQ(bad.error(), ErrorCode::kConnectionRefused);
  }
}

TEST(Socket, ConnectTellsThatNobodyListens) {
  SocketAddress address;
  {
    address = tcp_listener().local_address().value();
  }
  EXPECT_EQ(Socket::connect(address, {}, later()).error(), ErrorCode::kConnectionRefused);
  EXPECT_EQ(Socket::connect(SocketAddress::unix_name(unique_name()).value(), {}, later()).error(),
            ErrorCode::kConnectionRefused);
  EXPECT_EQ(Socket::connect(SocketAddress::unix_name("/nonexistent/socket").value(), {}, later()).error(),
            ErrorCode::kNotFound);
}

// A full backlog is the one way to make a local connect wait.
TEST(Socket, ConnectEndsAtItsDeadlineWhenTheBacklogIsFull) {
  const SocketAddress address = SocketAddress::unix_name(unique_name()).value();
  const Socket listener = Socket::listen(address, {.backlog = 0}).value();
  const Socket first = Socket::connect(address, {}, later()).value();
  EXPECT_EQ(Socket::connect(address, {}, soon()).error(), ErrorCode::kDeadlineExceeded);
}

TEST(Socket, AcceptEndsAtItsDeadline) {
  const Socket listener = tcp_listener();
  EXPECT_FALSE(listener.try_accept().value().valid());
  EXPECT_EQ(listener.accept(soon()).error(), ErrorCode::kDeadlineExceeded);
}

TEST(Socket, AListeningAddressIsTakenOnce) {
  const Socket listener = tcp_listener();
  EXPECT_EQ(Socket::listen(listener.local_address().value(), {}).error(), ErrorCode::kAlreadyExists);
}

TEST(Socket, ReusePortSharesAnAddress) {
  const SocketAddress any = SocketAddress::resolve("127.0.0.1:0").value()[0];
  const Socket first = Socket::listen(any, {.reuse_port = true}).value();
  EXPECT_TRUE(Socket::listen(first.local_address().value(), {.reuse_port = true}).has_value());
}

TEST(Socket, TcpOptionsAreTakenByTcpOnly) {
  const auto [client, server] = connect_to(tcp_listener());
  EXPECT_TRUE(client.set_no_delay(true));
  EXPECT_TRUE(client.set_user_timeout(milliseconds(5000)));
  EXPECT_TRUE(client.set_keep_alive({}));
  EXPECT_TRUE(client.set_send_buffer(1 << 16));
  EXPECT_TRUE(client.set_receive_buffer(1 << 16));
  const auto pair = Socket::pair(SocketKind::kStream).value();
  EXPECT_FALSE(pair.first.set_no_delay(true).has_value());
}

TEST(Socket, SeqpacketKeepsMessagesApart) {
  const SocketAddress address = SocketAddress::unix_name(unique_name()).value();
  const Socket listener = Socket::listen(address, {.kind = SocketKind::kSeqpacket}).value();
  const auto [client, server] = connect_to(listener, SocketKind::kSeqpacket);
  ASSERT_TRUE(client.send_all(bytes_of("one"), later()));
  ASSERT_TRUE(client.send_all(bytes_of("three"), later()));
  std::array<std::byte, 16> buffer{};
  EXPECT_EQ(server.try_receive(buffer).value(), 3u);
  EXPECT_EQ(server.try_receive(buffer).value(), 5u);
}

TEST(Socket, UnixPeersAreKnownByTheirProcess) {
  const SocketAddress address = SocketAddress::unix_name(unique_name()).value();
  const Socket listener = Socket::listen(address, {}).value();
  const auto [client, server] = connect_to(listener);
  const PeerCredentials peer = server.peer_credentials().value();
  EXPECT_EQ(peer.pid, ::getpid());
  EXPECT_EQ(peer.uid, ::getuid());
  EXPECT_EQ(peer.gid, ::getgid());
}

TEST(Socket, ShutDownWakesAWaitingThread) {
  const auto [client, server] = connect_to(tcp_listener());
  std::thread closer([&] { server.shut_down(); });
  std::array<std::byte, 8> buffer{};
  EXPECT_EQ(server.receive_all(buffer, later()).error(), ErrorCode::kConnectionLost);
  closer.join();
}

TEST(FdPassing, TheReceiverGetsTheSameMemory) {
  const auto [a, b] = Socket::pair(SocketKind::kSeqpacket).value();
  const Memfd sent = Memfd::create({.size = 8192}).value();
  ASSERT_TRUE(send_with_fds(a, bytes_of("memory"), std::array{sent.fd().get()}, later()));
  std::array<std::byte, 64> buffer{};
  const ReceivedMessage message = receive_with_fds(b, buffer, 1, later()).value();
  EXPECT_EQ(message.bytes, 6u);
  ASSERT_EQ(message.fds.size(), 1u);
  EXPECT_NE(::fcntl(message.fds[0].get(), F_GETFD) & FD_CLOEXEC, 0);
  ASSERT_EQ(::pwrite(sent.fd().get(), "hello", 5, 100), 5);
  std::array<char, 5> seen{};
  ASSERT_EQ(::pread(message.fds[0].get(), seen.data(), 5, 100), 5);
  EXPECT_EQ(std::string_view(seen.data(), 5), "hello");
}

TEST(FdPassing, TheMostDescriptorsOneMessageCarriesArrive) {
  const auto [a, b] = Socket::pair(SocketKind::kSeqpacket).value();
  const std::vector<int> many(kMaxPassedFds, a.fd().get());
  ASSERT_TRUE(send_with_fds(a, bytes_of("x"), many, later()));
  std::array<std::byte, 4> buffer{};
  EXPECT_EQ(receive_with_fds(b, buffer, kMaxPassedFds, later()).value().fds.size(), kMaxPassedFds);
  EXPECT_EQ(send_with_fds(a, bytes_of("x"), std::vector<int>(kMaxPassedFds + 1, 0), later()).error(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(send_with_fds(a, {}, {}, later()).error(), ErrorCode::kInvalidArgument);
}

TEST(FdPassing, SurplusDescriptorsAreClosedAndRefused) {
  const auto [a, b] = Socket::pair(SocketKind::kSeqpacket).value();
  const int before = open_descriptors();
  ASSERT_TRUE(send_with_fds(a, bytes_of("x"), std::vector<int>(5, a.fd().get()), later()));
  std::array<std::byte, 4> buffer{};
  EXPECT_EQ(receive_with_fds(b, buffer, 4, later()).error(), ErrorCode::kMalformedFrame);
  EXPECT_EQ(open_descriptors(), before);
}

TEST(FdPassing, AMessageThatIsTooLongLeavesNoDescriptorOpen) {
  const auto [a, b] = Socket::pair(SocketKind::kSeqpacket).value();
  const int before = open_descriptors();
  ASSERT_TRUE(send_with_fds(a, bytes_of("too long"), std::array{a.fd().get()}, later()));
  std::array<std::byte, 4> buffer{};
  EXPECT_EQ(receive_with_fds(b, buffer, 4, later()).error(), ErrorCode::kMessageTooLong);
  EXPECT_EQ(open_descriptors(), before);
}

TEST(FdPassing, WaitsAndNoticesAGonePeer) {
  auto [a, b] = Socket::pair(SocketKind::kSeqpacket).value();
  std::array<std::byte, 4> buffer{};
  EXPECT_EQ(receive_with_fds(b, buffer, 4, soon()).error(), ErrorCode::kDeadlineExceeded);
  a = Socket();
  EXPECT_EQ(receive_with_fds(b, buffer, 4, later()).error(), ErrorCode::kConnectionLost);
  EXPECT_EQ(send_with_fds(b, bytes_of("x"), {}, later()).error(), ErrorCode::kConnectionLost);
}

TEST(FdPassing, PlainReceivesDoNotLeakDescriptors) {
  const auto [a, b] = Socket::pair(SocketKind::kStream).value();
  const int before = open_descriptors();
  ASSERT_TRUE(send_with_fds(a, bytes_of("x"), std::array{a.fd().get()}, later()));
  std::array<std::byte, 4> buffer{};
  EXPECT_EQ(b.try_receive(buffer).value(), 1u);
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace yonder::os
