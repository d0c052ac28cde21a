#pragma once
// Addresses of the fabric: which provider, where, with which options.
//
//   shm:name?model=rdma100g      a socket name on this host (or an absolute path)
//   tcp://host:7400?tls=on       tcp://[::1]:7400
//   verbs://10.0.0.1:7400
//   sim://host3:7400
//
// Concurrency: values.

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "yonder/base/result.h"

namespace yonder::fabric {

inline constexpr std::size_t kMaxAddressLength = 1024;

struct Address {
  std::string provider;                        // "shm", "tcp", "verbs", "sim"
  std::string place;                           // "name", "host:port"
  std::map<std::string, std::string> options;  // after '?', separated by '&'

  std::string to_string() const;
  friend bool operator==(const Address&, const Address&) = default;
};

// kAddressInvalid for no scheme, an unknown provider, an empty option name, an
// option given twice, a place that begins with "//", more than kMaxAddressLength
// characters, spaces or control characters.
Result<Address> parse_address(std::string_view text);

}  // namespace yonder::fabric
