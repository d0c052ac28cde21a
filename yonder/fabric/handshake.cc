#include "yonder/fabric/handshake.h"

#include <algorithm>
#include <cstring>

#include "yonder/base/fixed_layout.h"

namespace yonder::fabric {
void Hello::encode(std::span<std::byte, kEncodedBytes> out) const {
  put_field<std::uint32_t>(out, 0, kMagic);
  put_field<std::uint16_t>(out, 4, min_version);
  put_field<std::uint16_t>(out, 6, max_version);
  put_field<std::uint64_t>(out, 8, features);
  put_field<std::uint32_t>(out, 16, identity.tenant.value());
  put_field<std::uint32_t>(out, 20, 0);
  put_field<std::uint64_t>(out, 24, identity.epoch.value());
  put_field<std::uint64_t>(out, 32, process);
}

Result<Hello> Hello::decode(std::span<const std::byte> bytes) {
  if (bytes.size() < kEncodedBytes || get_field<std::uint32_t>(bytes, 0) != kMagic) {
    return fail(ErrorCode::kMalformedFrame, "read hello", static_cast<std::int64_t>(bytes.size()));
  }
  Hello hello;
  hello.min_version = get_field<std::uint16_t>(bytes, 4);
  hello.max_version = get_field<std::uint16_t>(bytes, 6);
  hello.features = get_field<std::uint64_t>(bytes, 8);
  hello.identity.tenant = TenantId{get_field<std::uint32_t>(bytes, 16)};
  hello.identity.epoch = Epoch{get_field<std::uint64_t>(bytes, 24)};
  hello.process = get_field<std::uint64_t>(bytes, 32);
  if (hello.min_version == 0 || hello.min_version > hello.max_version) {
    return fail(ErrorCode::kMalformedFrame, "read hello: version range", hello.min_version);
  }
  return hello;
}

Result<Agreement> agree(const Hello& ours, const Hello& theirs) {
  const std::uint16_t version = std::min(ours.max_version, theirs.max_version);
  if (version < std::max(ours.min_version, theirs.min_version)) {
    return fail(ErrorCode::kProtocolMismatch, "agree on a protocol version", theirs.max_version);
  }
  return Agreement{.version = version, .features = ours.features & theirs.features, .peer = theirs.identity};
}

}  // namespace yonder::fabric
