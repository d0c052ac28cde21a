#pragma once
// Places: how processes tell each other where they listen.
//
// An address has options behind '?', which are about the host that uses it: which key
// file, which certificate, which device. They are nobody else's business, and files named
// by a peer are not to be opened. So what is announced has none, and who dials puts in
// its own, whatever the peer has written.
//
//   told("tcp://10.0.0.1:7500?tls=on&psk=/etc/key…")                    tcp://10.0.0.1:7500
//   dialled("tcp://10.0.0.1:7500", "tcp://0.0.0.0:0?tls=on&psk=/my/key…")
//                                              tcp://10.0.0.1:7500?tls=on&psk=/my/key…
//
// Concurrency: pure functions.

#include <string>
#include <utility>

#include "yonder/base/result.h"
#include "yonder/fabric/address.h"

namespace yonder::segment::internal {

// Requires an address of a listener of ours, which is one that can be parsed.
inline std::string told(const std::string& address) {
  Result<fabric::Address> parsed = fabric::parse_address(address);
  if (!parsed) return address;
  parsed->options.clear();
  return parsed->to_string();
}

// kAddressInvalid: what the peer says is no address, or of another provider than ours.
inline Result<std::string> dialled(const std::string& theirs, const std::string& ours) {
  YONDER_TRY(place, fabric::parse_address(theirs));
  YONDER_TRY(own, fabric::parse_address(ours));
  if (place.provider != own.provider)
    return fail(ErrorCode::kAddressInvalid, "dial a peer: it listens at another provider's address");
  place.options = std::move(own.options);
  return place.to_string();
}

}  // namespace yonder::segment::internal
