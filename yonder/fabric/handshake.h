#pragma once
// The first bytes two fabrics exchange, the same on every provider.
//
// Version and features are negotiated once per connection: the highest version
// both speak, the features both have. Tenant and epoch say on whose behalf and
// under which topology the initiator speaks; they are carried from the first
// version on, because adding them to a deployed protocol later is what one
// cannot do. 40 bytes, little endian, so that it fits an rdma_cm request (56).
//
//   byte  0       4          6          8          16       20     24       32          40
//        | magic | min ver. | max ver. | features | tenant | zero | epoch  | process   |
//
// Concurrency: values.

#include <cstddef>
#include <cstdint>
#include <span>

#include "yonder/base/id.h"
#include "yonder/base/result.h"

namespace yonder::fabric {

inline constexpr std::uint16_t kProtocolVersion = 1;
inline constexpr std::uint16_t kOldestProtocolVersion = 1;

// Bits of Hello::features. Unknown bits of a peer are ignored.
enum class Feature : std::uint64_t {
  kWriteImmediate = 1,
  kLateEpochCheck = 2,  // the target refuses requests of an older epoch (tcp)
};
inline constexpr std::uint64_t kAllFeatures = 3;

// Who we are for the peers we talk to.
struct Identity {
  TenantId tenant{0};
  Epoch epoch{0};
};

struct Hello {
  static constexpr std::size_t kEncodedBytes = 40;
  static constexpr std::uint32_t kMagic = 0x594e4452;  // "RDNY" in memory order

  std::uint16_t min_version = kOldestProtocolVersion;
  std::uint16_t max_version = kProtocolVersion;
  std::uint64_t features = kAllFeatures;
  Identity identity;
  std::uint64_t process = 0;  // random per process: lets shm see that both ends are one process

  void encode(std::span<std::byte, kEncodedBytes> out) const;
  // kMalformedFrame if these are not the bytes of any Hello.
  static Result<Hello> decode(std::span<const std::byte> bytes);
};

// What a connection is after both Hellos.
struct Agreement {
  std::uint16_t version = 0;
  std::uint64_t features = 0;
  Identity peer;
};

// kProtocolMismatch if the version ranges do not meet.
Result<Agreement> agree(const Hello& ours, const Hello& theirs);

}  // namespace yonder::fabric
