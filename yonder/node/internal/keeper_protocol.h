#pragma once
// What travels between a node and its keeper: one request, one answer, each a packet of
// fixed size on a Unix socket (kind seqpacket), with at most one descriptor.
//
//   request   file        descriptor    answer
//   kList     –           –             the index-th file of the node and its descriptor,
//                                       or kNotFound if there are not so many
//   kKeep     its name    the file      –
//   kForget   –           –             –
//
// The first request of a connection takes the node's lease, which ends with the
// connection: until then all requests of others for that node are answered with
// kAlreadyExists.
//
// Concurrency and lifetime: values.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace yonder::node::internal {

inline constexpr std::uint32_t kKeeperMagic = 0x5059'4b31;  // Changes with the packets.
inline constexpr std::size_t kKeeperNameBytes = 64;

enum class KeeperRequestKind : std::uint32_t { kList = 1, kKeep = 2, kForget = 3 };

// Text that ends with its first zero, or with its room.
using KeeperName = std::array<char, kKeeperNameBytes>;
inline KeeperName to_name(std::string_view text) {
  KeeperName name{};
  std::ranges::copy(text.substr(0, name.size()), name.begin());
  return name;
}
inline std::string to_text(const KeeperName& name) {
  return std::string(name.begin(), std::ranges::find(name, '\0'));
}

struct KeeperRequest {
  std::uint32_t magic = kKeeperMagic;
  KeeperRequestKind kind = KeeperRequestKind::kList;
  std::uint64_t index = 0;
  KeeperName node{};
  KeeperName file{};
};
struct KeeperAnswer {
  std::uint32_t magic = kKeeperMagic;
  std::uint32_t status = 0;  // An ErrorCode.
  KeeperName file{};
};
static_assert(sizeof(KeeperRequest) == 16 + 2 * kKeeperNameBytes &&
              sizeof(KeeperAnswer) == 8 + kKeeperNameBytes);

template <typename Packet>
std::span<std::byte> bytes_of(Packet& packet) {
  static_assert(std::is_trivially_copyable_v<Packet>);
  return std::as_writable_bytes(std::span(&packet, 1));
}

}  // namespace yonder::node::internal
