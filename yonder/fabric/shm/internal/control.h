#pragma once
// The control messages of a connection, on its Unix socket (SOCK_SEQPACKET).
//
//   initiator                                   target
//   Hello + state file, board, eventfd   →
//                                        ←      Welcome + link file, state file, board, eventfd
//   Resolve (key)                        →      either side may ask the other, any time
//                                        ←      Resolved + the region's file, if direct
//   Wake                                 →      "look at my served requests"
//
// One message is one packet of at most kMaxPacket bytes: a type byte and the
// fields in order, little endian as all machines we run on. Data never travels
// here. Decoding checks everything that can be checked without context.
//
// Concurrency: values.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/fabric/fabric.h"
#include "yonder/fabric/handshake.h"
#include "yonder/fabric/shm/internal/layout.h"

namespace yonder::fabric::shm {

inline constexpr std::size_t kMaxPacket = 512;
inline constexpr std::size_t kMaxPacketFds = 5;

enum class PacketType : std::uint8_t { kHello = 1, kWelcome, kResolve, kResolved, kWake };

// Where a side wants to be told of things: indices into its state file and boards.
struct Contact {
  std::uint32_t queue_line = 0;     // notice line of the completion queue; 0: passive, has none
  std::uint32_t queue_entry = 0;    // its board entry for this connection
  std::uint32_t service_entry = 0;  // the service board's entry
  std::uint32_t receive_line = 0;   // notice line of the shared receive queue; 0: own receives
};

enum ContactFlags : std::uint32_t {
  kMembarrier = 1,  // the process is registered for global membarrier
  kForeign = 2,     // treat us as another process even if we are not (inprocess=off)
};

struct HelloPacket {
  Hello hello;
  std::uint32_t flags = 0;
  std::uint32_t max_message = 0;
  std::uint32_t receive_depth = 0;
  Contact contact;
};

struct WelcomePacket {
  ErrorCode status = ErrorCode::kOk;  // why the connection is refused; then the rest is zero
  Hello hello;
  std::uint32_t flags = 0;
  std::uint32_t max_message = 0;
  std::uint64_t connection = 0;  // a number that both sides know it by
  LinkShape shape;
  Contact contact;
  std::vector<std::byte> greeting;
};

struct ResolvePacket {
  RegionKey key;
};

struct ResolvedPacket {
  RegionKey key;
  ErrorCode status = ErrorCode::kOk;
  bool direct = false;
  Rights rights = Rights::kNone;
  std::uint32_t slot = 0;
  std::uint64_t state = 0;
  std::uint64_t length = 0;
  std::uint64_t address = 0;  // in-process peers only
};

// An encoded packet, on the stack.
class Packet {
 public:
  std::span<const std::byte> bytes() const { return {bytes_.data(), size_}; }

  void put(std::span<const std::byte> bytes);
  template <typename T>
  void put(T value) {
    put(std::as_bytes(std::span(&value, 1)));
  }

 private:
  std::array<std::byte, kMaxPacket> bytes_;
  std::size_t size_ = 0;
};

Packet encode(const HelloPacket& packet);
Packet encode(const WelcomePacket& packet);
Packet encode(const ResolvePacket& packet);
Packet encode(const ResolvedPacket& packet);
Packet encode_wake();

// All: kMalformedFrame for anything but the whole of such a packet.
Result<PacketType> packet_type(std::span<const std::byte> bytes);
Result<HelloPacket> decode_hello(std::span<const std::byte> bytes);
Result<WelcomePacket> decode_welcome(std::span<const std::byte> bytes);
Result<ResolvePacket> decode_resolve(std::span<const std::byte> bytes);
Result<ResolvedPacket> decode_resolved(std::span<const std::byte> bytes);

}  // namespace yonder::fabric::shm
