// What a hostile peer can try with what it is given, and that it harms nobody.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "yonder/fabric/shm/internal/handshake.h"
#include "yonder/fabric/shm/internal/place.h"
#include "yonder/fabric/shm/test_support.h"

namespace yonder::fabric::shm {
namespace {

// A peer that speaks the protocol by hand, so that it can break it.
class RawPeer {
 public:
  explicit RawPeer(const std::string& address)
      : place_(must(parse_place(address, false))),
        states_(must(StateFile::create())),
        fence_(RareFence::create()),
        board_(must(Board::create())),
        queue_(must(ShmCompletionQueue::create(*states_, fence_, {}))),
        self_{*states_, fence_, board_, 0} {
    end_.queue = static_cast<ShmCompletionQueue*>(queue_.get());
    end_.contact = {.queue_line = end_.queue->line(),
                    .queue_entry = must(end_.queue->take_entry()),
                    .service_entry = must(board_.take())};
    end_.foreign = true;
    socket_ = must(os::Socket::connect(place_.socket, {.kind = os::SocketKind::kSeqpacket}, within()));
  }

  void say_hello() { must_void(::yonder::fabric::shm::say_hello(socket_, self_, end_)); }
  // The whole handshake.
  std::unique_ptr<Link> connect() {
    say_hello();
    std::array<std::byte, kMaxPacket> buffer;
    Received packet = receive(buffer);
    auto parts =
        must(take_welcome(socket_, self_, end_, {buffer.data(), packet.bytes}, std::move(packet.fds)));
    return std::make_unique<Link>(std::move(parts), EndpointId{1}, end_.queue->mailbox());
  }
  void send(std::span<const std::byte> bytes, std::span<const int> fds = {}) {
    must_void(os::send_with_fds(socket_, bytes, fds, within()));
  }
  Received receive(std::span<std::byte> buffer) { return receive_from(socket_, buffer); }
  static Received receive_from(const os::Socket& socket, std::span<std::byte> buffer) {
    auto message = must(os::receive_with_fds(socket, buffer, kMaxPacketFds, within()));
    return {message.bytes, std::move(message.fds)};
  }
  // True once the other side has ended the connection.
  static bool is_cut(const os::Socket& socket) {
    return eventually([&] {
      std::array<std::byte, kMaxPacket> buffer;
      const auto got = socket.try_receive(buffer);
      return !got;
    });
  }
  const os::Socket& socket() const { return socket_; }

 private:
  static void must_void(const Result<void>& result) { ASSERT_TRUE(result) << result.error(); }

  Place place_;
  std::unique_ptr<StateFile> states_;
  RareFence fence_;
  Board board_;
  std::unique_ptr<CompletionQueue> queue_;
  Self self_;
  End end_;
  os::Socket socket_;
};

struct Resolved {
  ResolvedPacket packet;
  std::vector<os::Fd> fds;
};

Resolved resolve(const Link& link, RegionKey key) {
  EXPECT_TRUE(link.ask(key));
  std::array<std::byte, kMaxPacket> buffer;
  Received got = RawPeer::receive_from(link.parts().socket, buffer);
  return {must(decode_resolved({buffer.data(), got.bytes})), std::move(got.fds)};
}

// A target with an application endpoint, and an honest client that must never
// notice anything.
class Hostile : public ::testing::Test {
 protected:
  Hostile() : memory_(SharedMemory::create(8192)), target_(must(open({}))), honest_(must(open({}))) {
    region_ = must(target_->register_memory(
        {.memory = memory_.bytes(), .rights = Rights::kAll, .backing = memory_.backing()}));
    server_queue_ = must(target_->create_completion_queue({.capacity = 16384}));
    listener_ =
        must(target_->listen({.address = "shm:?inprocess=off", .completion_queues = {server_queue_.get()}}));
    client_queue_ = must(honest_->create_completion_queue({}));
    client_ = must(honest_->connect({.address = listener_->address()}, *client_queue_));
    server_ = must(listener_->accept(within()));
  }
  ~Hostile() override { expect_honest_is_well(); }

  void expect_honest_is_well() {
    std::uint64_t word = 0;
    const LocalPiece piece = LocalPiece::of(std::as_writable_bytes(std::span(&word, 1)));
    EXPECT_TRUE(client_->read(piece, region_.token().at(0), within()).wait());
    EXPECT_EQ(server_->state(), EndpointState::kOpen);
    EXPECT_EQ(client_->state(), EndpointState::kOpen);
  }
  ErrorCode next_status(CompletionQueue& queue) {
    Completion done;
    while (queue.poll({&done, 1}) == 0) {
      if (!queue.wait(within(std::chrono::seconds(10)))) return ErrorCode::kDeadlineExceeded;
    }
    return done.status;
  }

  SharedMemory memory_;
  std::unique_ptr<Fabric> target_;
  std::unique_ptr<Fabric> honest_;
  Region region_;
  std::unique_ptr<CompletionQueue> server_queue_;
  std::unique_ptr<CompletionQueue> client_queue_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Endpoint> server_;
  std::unique_ptr<Endpoint> client_;
};

// ---------------------------------------------------------------- descriptors

TEST_F(Hostile, CannotMapAReadOnlyRegionForWriting) {
  const SharedMemory memory = SharedMemory::create(4096);
  Region read_only = must(target_->register_memory({.memory = memory.bytes(), .backing = memory.backing()}));
  RawPeer peer(listener_->address());
  const auto link = peer.connect();
  const Resolved got = resolve(*link, read_only.token().key);
  ASSERT_EQ(got.fds.size(), 1u);
  const int fd = got.fds[0].get();
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
  EXPECT_EQ(errno, EACCES);
  EXPECT_LT(::pwrite(fd, "x", 1, 0), 0);
  void* const mapped = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  EXPECT_NE(::mprotect(mapped, 4096, PROT_READ | PROT_WRITE), 0);
  ::munmap(mapped, 4096);
}

TEST_F(Hostile, ADescriptorGrantsTheRegionAndNoByteMore) {
  RawPeer peer(listener_->address());
  const auto link = peer.connect();
  const Resolved got = resolve(*link, region_.token().key);
  ASSERT_EQ(got.fds.size(), 1u);
  struct stat status{};
  ASSERT_EQ(::fstat(got.fds[0].get(), &status), 0);
  EXPECT_EQ(static_cast<std::uint64_t>(status.st_size), region_.token().length);
  EXPECT_NE(::ftruncate(got.fds[0].get(), 1 << 20), 0) << "cannot grow";
  EXPECT_NE(::ftruncate(got.fds[0].get(), 0), 0) << "cannot shrink under the owner";
}

TEST_F(Hostile, GetsNoDescriptorForAPartOfAFile) {
  Region part = must(target_->register_memory(
      {.memory = memory_.bytes().first(4096), .rights = Rights::kAll, .backing = memory_.backing()}));
  RawPeer peer(listener_->address());
  const auto link = peer.connect();
  const Resolved got = resolve(*link, part.token().key);
  EXPECT_EQ(got.packet.status, ErrorCode::kOk);
  EXPECT_FALSE(got.packet.direct);
  EXPECT_TRUE(got.fds.empty());
  EXPECT_EQ(got.packet.address, 0u) << "no addresses for strangers";
}

TEST_F(Hostile, GetsNothingForKeysItDoesNotHold) {
  Region other = must(target_->register_memory(
      {.memory = memory_.bytes(), .backing = memory_.backing(), .tenant = TenantId{9}}));
  RawPeer peer(listener_->address());
  const auto link = peer.connect();
  const Resolved guessed = resolve(*link, RegionKey{region_.token().key.value + 1});
  EXPECT_EQ(guessed.packet.status, ErrorCode::kUnknownKey);
  EXPECT_TRUE(guessed.fds.empty());
  const Resolved denied = resolve(*link, other.token().key);
  EXPECT_EQ(denied.packet.status, ErrorCode::kTenantDenied);
  EXPECT_TRUE(denied.fds.empty());
}

TEST_F(Hostile, CannotWriteTheTargetsStateFile) {
  RawPeer peer(listener_->address());
  peer.say_hello();
  std::array<std::byte, kMaxPacket> buffer;
  const Received welcome = peer.receive(buffer);
  ASSERT_GE(welcome.fds.size(), 2u);
  const std::string path = "/proc/self/fd/" + std::to_string(welcome.fds[1].get());
  const int again = ::open(path.c_str(), O_RDWR | O_CLOEXEC);  // Allowed by the mode, not by the seal.
  for (const int fd : {welcome.fds[1].get(), again})
    EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
  if (again >= 0) ::close(again);
}

// ---------------------------------------------------------------- served requests

TEST_F(Hostile, ServedRequestsAreCheckedAtTheTarget) {
  const SharedMemory memory = SharedMemory::create(4096);
  Region served = must(target_->register_memory({.memory = memory.bytes()}));  // read only, no backing
  RawPeer peer(listener_->address());
  const auto link = peer.connect();
  std::uint32_t n = 0;
  const auto ask = [&](Op op, RegionKey key, std::uint64_t offset, std::uint32_t length) {
    const std::uint32_t slot = n % kSlots;
    ServeRequest& request = link->our_lane().requests[slot];
    request.op = static_cast<std::uint8_t>(op);
    request.key = key.value;
    request.offset = offset;
    request.state = 0;
    request.length = length;
    request.sequence.store(++n, std::memory_order_release);
    link->announce_request();
    const ServeReply& reply = link->our_lane().replies[slot];
    EXPECT_TRUE(eventually([&] { return reply.sequence.load(std::memory_order_acquire) == n; }));
    return static_cast<ErrorCode>(reply.status);
  };
  const RegionKey key = served.token().key;
  EXPECT_EQ(ask(Op::kRead, key, 0, 4096), ErrorCode::kOk);
  EXPECT_EQ(ask(Op::kRead, key, 1, 4096), ErrorCode::kOutOfBounds);
  EXPECT_EQ(ask(Op::kRead, key, ~std::uint64_t{0}, 2), ErrorCode::kOutOfBounds);
  EXPECT_EQ(ask(Op::kWrite, key, 0, 8), ErrorCode::kAccessDenied);
  EXPECT_EQ(ask(Op::kFetchAdd, key, 0, 8), ErrorCode::kAccessDenied);
  EXPECT_EQ(ask(Op::kRead, key, 0, kSlotBytes + 1), ErrorCode::kInvalidArgument) << "past the slot";
  EXPECT_EQ(ask(static_cast<Op>(99), key, 0, 8), ErrorCode::kInvalidArgument);
  EXPECT_EQ(ask(Op::kRead, RegionKey{1}, 0, 8), ErrorCode::kUnknownKey);
}

// ---------------------------------------------------------------- the control socket

TEST_F(Hostile, GarbageInsteadOfAHelloEndsThatConnectionOnly) {
  RawPeer peer(listener_->address());
  std::vector<std::byte> garbage(300, std::byte{0xa5});
  peer.send(garbage);
  EXPECT_TRUE(RawPeer::is_cut(peer.socket()));
}

TEST_F(Hostile, GarbageAfterTheHandshakeEndsThatConnectionOnly) {
  RawPeer peer(listener_->address());
  const auto link = peer.connect();
  auto victim = must(listener_->accept(within()));
  const std::vector<std::byte> garbage(17, std::byte{0x77});
  ASSERT_TRUE(link->parts().socket.try_send(garbage));
  EXPECT_TRUE(RawPeer::is_cut(link->parts().socket));
}

TEST_F(Hostile, AFloodOfDescriptorsIsNotKept) {
  const auto open_descriptors = [] {
    int count = 0;
    for (int fd = 0; fd < 4096; ++fd) count += ::fcntl(fd, F_GETFD) >= 0;
    return count;
  };
  const int before = open_descriptors();
  {
    RawPeer peer(listener_->address());
    const std::vector<int> flood(200, memory_.file.fd().get());
    peer.send(std::vector<std::byte>(40, std::byte{1}), flood);
    EXPECT_TRUE(RawPeer::is_cut(peer.socket()));
  }
  EXPECT_TRUE(eventually([&] { return open_descriptors() <= before; }));
}

TEST_F(Hostile, AHalfHandshakeIsDroppedAtItsDeadlineAndHoldsUpNobody) {
  RawPeer silent(listener_->address());
  auto endpoint = must(honest_->connect({.address = listener_->address()}, *client_queue_));
  EXPECT_TRUE(RawPeer::is_cut(silent.socket()));
}

TEST_F(Hostile, AFileThatCanShrinkIsRefused) {
  // Welcome files are checked by the initiator; here the target's side is tried:
  // a Hello whose state file has no seals.
  RawPeer peer(listener_->address());
  auto bad = must(os::Memfd::create({.name = "bad", .size = kStateFileBytes}));
  const HelloPacket hello{.hello = {}, .max_message = 64, .receive_depth = 1, .contact = {.queue_line = 1}};
  const int fds[] = {bad.fd().get(), bad.fd().get(), bad.fd().get(), bad.fd().get()};
  peer.send(encode(hello).bytes(), fds);
  std::array<std::byte, kMaxPacket> buffer;
  const Received answer = peer.receive(buffer);
  const auto welcome = decode_welcome({buffer.data(), answer.bytes});
  ASSERT_TRUE(welcome);
  EXPECT_EQ(welcome->status, ErrorCode::kMalformedFrame);
}

// ---------------------------------------------------------------- shared memory

TEST_F(Hostile, AMalformedCellBreaksItsConnectionOnly) {
  RawPeer peer(listener_->address());
  const auto link = peer.connect();
  auto victim = must(listener_->accept(within()));
  std::byte buffer[64];
  const ReceiveRequest receive{.user_data = 1, .buffer = LocalPiece::of(std::span(buffer))};
  ASSERT_TRUE(victim->post_receive({&receive, 1}));
  auto* const cell =
      reinterpret_cast<HeadCell*>(link->parts().memory.data() + link->parts().shape.cells_at(0));
  cell->what.store(0xffffffffu);
  cell->sequence.store(1, std::memory_order_release);
  link->announce_message();
  EXPECT_EQ(next_status(*server_queue_), ErrorCode::kMalformedFrame);
  EXPECT_TRUE(RawPeer::is_cut(link->parts().socket));
  EXPECT_NE(victim->state(), EndpointState::kOpen);
}

TEST_F(Hostile, AMessageWithoutAReceiveBreaksItsConnectionOnly) {
  RawPeer peer(listener_->address());
  const auto link = peer.connect();
  auto victim = must(listener_->accept(within()));
  const LocalPiece nothing{};
  link->sender.send({MessageKind::kSend, 0, 0}, {&nothing, 0}, 0);
  link->announce_message();
  EXPECT_TRUE(eventually([&] {
    (void)server_queue_->poll({});
    return victim->state() != EndpointState::kOpen;
  }));
}

TEST_F(Hostile, ALieAboutReceivesGivesAnErrorNotAnOverrun) {
  RawPeer peer(listener_->address());
  const auto link = peer.connect();
  auto victim = must(listener_->accept(within()));
  link->their_lane().posted.store(0x80000000u, std::memory_order_release);
  EXPECT_FALSE(victim->send(LocalPiece{}, 0, within()).wait());
}

TEST_F(Hostile, AReaderThatNeverLeavesCannotHoldUpARevocation) {
  const SharedMemory memory = SharedMemory::create(4096);
  Region region = must(target_->register_memory({.memory = memory.bytes(), .backing = memory.backing()}));
  RawPeer peer(listener_->address());
  const auto link = peer.connect();
  const Resolved got = resolve(*link, region.token().key);
  link->our_lane().hazard.store(hazard_of(got.packet.slot, got.packet.state));
  const Instant start = os::SteadyClock::read();
  region.revoke();
  EXPECT_LT(os::SteadyClock::read() - start, std::chrono::seconds(20));
  EXPECT_TRUE(RawPeer::is_cut(link->parts().socket)) << "it loses its connection";
}

}  // namespace
}  // namespace yonder::fabric::shm
