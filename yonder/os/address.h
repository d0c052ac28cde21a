#pragma once
// SocketAddress: where a socket listens or connects: IPv4, IPv6 or Unix.
//
// As text: "127.0.0.1:7400", "[::1]:7400", "host.example:7400", and for Unix
// sockets a path or "@name" for a name in the abstract space, which needs no
// file and vanishes with its socket.
//
// Concurrency and lifetime: a value.

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "yonder/base/result.h"

namespace yonder::os {

class SocketAddress {
 public:
  SocketAddress() = default;
  SocketAddress(const sockaddr* raw, socklen_t length);

  // All addresses of "host:port" or "[v6]:port", best first, never empty. Port 0
  // asks for a free port when listening; the host "*" or an empty one means all
  // interfaces when listening and is refused otherwise. A numeric host needs no
  // name service; a name may block for as long as the resolver is configured to
  // (/etc/resolv.conf), which no deadline of ours can shorten.
  // Errors: kAddressInvalid (not host:port), kNotFound (unknown name),
  // kOsError (the resolver failed; detail is its EAI code).
  struct ResolveOptions {
    bool for_listening = false;
  };
  static Result<std::vector<SocketAddress>> resolve(std::string_view host_port, ResolveOptions options);
  static Result<std::vector<SocketAddress>> resolve(std::string_view host_port) {
    return resolve(host_port, {});
  }

  // "/run/x.sock" or "@abstract". Errors: kAddressInvalid (empty, contains NUL,
  // or longer than the 107 bytes the kernel takes).
  static Result<SocketAddress> unix_name(std::string_view name);

  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t length() const { return length_; }
  int family() const { return storage_.ss_family; }
  bool is_unix() const { return family() == AF_UNIX; }
  // 0 for a Unix address.
  std::uint16_t port() const;
  // The text form from above; "(unnamed)" for an unnamed Unix socket.
  std::string to_string() const;

 private:
  sockaddr_storage storage_{};
  socklen_t length_ = 0;
};

// The two halves of "host:port" / "[v6]:port"; brackets are taken off.
struct HostPort {
  std::string_view host;
  std::uint16_t port;
};
// Errors: kAddressInvalid. An IPv6 address without brackets is refused: its last
// group could be taken for the port.
Result<HostPort> parse_host_port(std::string_view text);

}  // namespace yonder::os
