#pragma once
// From the text of an address to where a socket is and how its peers are treated.
//
// Concurrency: values.

#include <optional>
#include <string>
#include <string_view>

#include "yonder/base/result.h"
#include "yonder/fabric/shm/internal/link_model.h"
#include "yonder/os/address.h"

namespace yonder::fabric::shm {

struct Place {
  std::string text;  // the address to give to peers
  os::SocketAddress socket;
  std::string path;       // of a socket in the file system; else empty
  bool foreign = false;   // inprocess=off
  bool any_user = false;  // peers=any
  std::optional<LinkModel> model;
};

// kAddressInvalid for another provider, an unknown option or value, a name that
// is too long. `for_listening`: an empty name means a fresh one.
Result<Place> parse_place(std::string_view address, bool for_listening);

}  // namespace yonder::fabric::shm
