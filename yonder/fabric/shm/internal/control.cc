#include "yonder/fabric/shm/internal/control.h"

#include <algorithm>
#include <cstring>

#include "yonder/base/check.h"
#include "yonder/fabric/shm/internal/board.h"
#include "yonder/fabric/shm/internal/region_table.h"
#include "yonder/fabric/shm/internal/state_file.h"

namespace yonder::fabric::shm {
namespace {

std::unexpected<Error> malformed(const char* what) { return fail(ErrorCode::kMalformedFrame, what); }

// Takes fields off the front; remembers if there were too few bytes.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) { (void)take<std::uint8_t>(); }

  template <typename T>
  T take() {
    T value{};
    if (rest_.size() < sizeof value) {
      ok_ = false;
      return value;
    }
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_ = rest_.subspan(sizeof value);
    return value;
  }
  std::span<const std::byte> take_bytes(std::size_t count) {
    if (rest_.size() < count) {
      ok_ = false;
      return {};
    }
    const auto bytes = rest_.first(count);
    rest_ = rest_.subspan(count);
    return bytes;
  }
  bool done() const { return ok_ && rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
  bool ok_ = true;
};

void put_hello(Packet& out, const Hello& hello) {
  std::array<std::byte, Hello::kEncodedBytes> bytes;
  hello.encode(bytes);
  out.put(bytes);
}

void put_contact(Packet& out, const Contact& contact) {
  out.put(contact.queue_line);
  out.put(contact.queue_entry);
  out.put(contact.service_entry);
  out.put(contact.receive_line);
}

Contact take_contact(Reader& in) {
  Contact contact;
  contact.queue_line = in.take<std::uint32_t>();
  contact.queue_entry = in.take<std::uint32_t>();
  contact.service_entry = in.take<std::uint32_t>();
  contact.receive_line = in.take<std::uint32_t>();
  return contact;
}

bool is_valid(const Contact& contact) {
  return contact.queue_line < kNoticeLines && contact.queue_entry < kBoardEntries &&
         contact.service_entry < kBoardEntries && contact.receive_line < kNoticeLines;
}

template <typename T>
Packet start(PacketType type, T fill) {
  Packet out;
  out.put(type);
  fill(out);
  return out;
}

}  // namespace

void Packet::put(std::span<const std::byte> bytes) {
  YONDER_CHECK(bytes.size() <= bytes_.size() - size_, "control packets are bounded by construction");
  std::ranges::copy(bytes, bytes_.begin() + static_cast<std::ptrdiff_t>(size_));
  size_ += bytes.size();
}

Packet encode(const HelloPacket& packet) {
  return start(PacketType::kHello, [&](Packet& out) {
    put_hello(out, packet.hello);
    out.put(packet.flags);
    out.put(packet.max_message);
    out.put(packet.receive_depth);
    put_contact(out, packet.contact);
  });
}

Packet encode(const WelcomePacket& packet) {
  return start(PacketType::kWelcome, [&](Packet& out) {
    out.put(packet.status);
    put_hello(out, packet.hello);
    out.put(packet.flags);
    out.put(packet.max_message);
    out.put(packet.connection);
    out.put(packet.shape.cells);
    out.put(packet.shape.receive_depth[0]);
    out.put(packet.shape.receive_depth[1]);
    put_contact(out, packet.contact);
    out.put(static_cast<std::uint32_t>(packet.greeting.size()));
    out.put(std::span(packet.greeting));
  });
}

Packet encode(const ResolvePacket& packet) {
  return start(PacketType::kResolve, [&](Packet& out) { out.put(packet.key.value); });
}

Packet encode(const ResolvedPacket& packet) {
  return start(PacketType::kResolved, [&](Packet& out) {
    out.put(packet.key.value);
    out.put(packet.status);
    out.put(static_cast<std::uint8_t>(packet.direct));
    out.put(packet.rights);
    out.put(packet.slot);
    out.put(packet.state);
    out.put(packet.length);
    out.put(packet.address);
  });
}

Packet encode_wake() {
  return start(PacketType::kWake, [](Packet&) {});
}

Result<PacketType> packet_type(std::span<const std::byte> bytes) {
  if (bytes.empty()) return malformed("read packet: empty");
  const auto type = std::to_integer<unsigned>(bytes.front());
  if (type < 1 || type > static_cast<unsigned>(PacketType::kWake)) return malformed("read packet: type");
  return static_cast<PacketType>(type);
}

Result<HelloPacket> decode_hello(std::span<const std::byte> bytes) {
  Reader in(bytes);
  YONDER_TRY(hello, Hello::decode(in.take_bytes(Hello::kEncodedBytes)));
  HelloPacket packet{.hello = hello};
  packet.flags = in.take<std::uint32_t>();
  packet.max_message = in.take<std::uint32_t>();
  packet.receive_depth = in.take<std::uint32_t>();
  packet.contact = take_contact(in);
  if (!in.done() || !is_valid(packet.contact)) return malformed("read hello packet");
  if (!std::has_single_bit(packet.receive_depth) || packet.receive_depth > LinkShape::kMaxReceiveDepth)
    return malformed("read hello packet: receive depth");
  return packet;
}

Result<WelcomePacket> decode_welcome(std::span<const std::byte> bytes) {
  Reader in(bytes);
  WelcomePacket packet;
  packet.status = in.take<ErrorCode>();
  const auto hello = in.take_bytes(Hello::kEncodedBytes);
  if (packet.status != ErrorCode::kOk) return packet;
  YONDER_TRY(decoded, Hello::decode(hello));
  packet.hello = decoded;
  packet.flags = in.take<std::uint32_t>();
  packet.max_message = in.take<std::uint32_t>();
  packet.connection = in.take<std::uint64_t>();
  packet.shape.cells = in.take<std::uint32_t>();
  packet.shape.receive_depth[0] = in.take<std::uint32_t>();
  packet.shape.receive_depth[1] = in.take<std::uint32_t>();
  packet.contact = take_contact(in);
  const auto greeting = in.take_bytes(in.take<std::uint32_t>());
  packet.greeting.assign(greeting.begin(), greeting.end());
  const bool fits = packet.shape.valid() && packet.max_message <= kMaxMessageBytes &&
                    packet.shape.cells >= LinkShape::cells_for(packet.max_message);
  if (!in.done() || !is_valid(packet.contact) || !fits || packet.greeting.size() > kMaxGreetingBytes)
    return malformed("read welcome packet");
  return packet;
}

Result<ResolvePacket> decode_resolve(std::span<const std::byte> bytes) {
  Reader in(bytes);
  const ResolvePacket packet{RegionKey{in.take<std::uint64_t>()}};
  if (!in.done()) return malformed("read resolve packet");
  return packet;
}

Result<ResolvedPacket> decode_resolved(std::span<const std::byte> bytes) {
  Reader in(bytes);
  ResolvedPacket packet;
  packet.key = RegionKey{in.take<std::uint64_t>()};
  packet.status = in.take<ErrorCode>();
  packet.direct = in.take<std::uint8_t>() != 0;
  packet.rights = in.take<Rights>();
  packet.slot = in.take<std::uint32_t>();
  packet.state = in.take<std::uint64_t>();
  packet.length = in.take<std::uint64_t>();
  packet.address = in.take<std::uint64_t>();
  const bool sane = packet.slot < kRegionSlots && allows(Rights::kAll, packet.rights) &&
                    (packet.status != ErrorCode::kOk || packet.length != 0);
  if (!in.done() || !sane) return malformed("read resolved packet");
  return packet;
}

}  // namespace yonder::fabric::shm
