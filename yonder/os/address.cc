#include "yonder/os/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <memory>

namespace yonder::os {
namespace {

constexpr std::size_t kUnixNameLimit = sizeof(sockaddr_un::sun_path) - 1;
constexpr std::size_t kUnixHeader = offsetof(sockaddr_un, sun_path);

std::string unix_text(const sockaddr_un& address, socklen_t length) {
  const std::size_t used = length - kUnixHeader;
  if (length <= kUnixHeader || used == 0) return "(unnamed)";
  if (address.sun_path[0] == '\0') return "@" + std::string(address.sun_path + 1, used - 1);
  return {address.sun_path, ::strnlen(address.sun_path, used)};
}

Result<std::uint16_t> parse_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size())
    return fail(ErrorCode::kAddressInvalid, "port of an address");
  return port;
}

Error resolver_error(int code) {
  switch (code) {
    case EAI_NONAME:
    case EAI_NODATA:
      return {ErrorCode::kNotFound, "resolve host name", code};
    case EAI_MEMORY:
      return {ErrorCode::kOutOfMemory, "resolve host name", code};
    case EAI_SYSTEM:
      return Error::from_errno("getaddrinfo");
    default:
      return {ErrorCode::kOsError, "getaddrinfo", code};
  }
}

}  // namespace

SocketAddress::SocketAddress(const sockaddr* raw, socklen_t length)
    : length_(std::min<socklen_t>(length, sizeof storage_)) {
  std::memcpy(&storage_, raw, length_);
}

Result<HostPort> parse_host_port(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return fail(ErrorCode::kAddressInvalid, "address without a port");
  std::string_view host = text.substr(0, colon);
  YONDER_TRY(port, parse_port(text.substr(colon + 1)));
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (host.find_first_of("[]") != std::string_view::npos || (bracketed && host.empty()) ||
      (!bracketed && host.find(':') != std::string_view::npos))
    return fail(ErrorCode::kAddressInvalid, "host of an address");
  return HostPort{.host = host, .port = port};
}

Result<std::vector<SocketAddress>> SocketAddress::resolve(std::string_view host_port,
                                                          ResolveOptions options) {
  YONDER_TRY(parts, parse_host_port(host_port));
  const bool any = parts.host.empty() || parts.host == "*";
  if (any && !options.for_listening) return fail(ErrorCode::kAddressInvalid, "connect needs a host");
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (options.for_listening ? AI_PASSIVE : 0);
  const std::string host(parts.host);
  addrinfo* list = nullptr;
  const int code =
      ::getaddrinfo(any ? nullptr : host.c_str(), std::to_string(parts.port).c_str(), &hints, &list);
  if (code != 0) return std::unexpected(resolver_error(code));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  std::vector<SocketAddress> found;
  for (const addrinfo* each = list; each != nullptr; each = each->ai_next)
    found.emplace_back(each->ai_addr, each->ai_addrlen);
  return found;
}

Result<SocketAddress> SocketAddress::unix_name(std::string_view name) {
  const bool abstract = name.starts_with('@');
  if (name.empty() || name == "@" || name.size() > kUnixNameLimit ||
      name.find('\0') != std::string_view::npos)
    return fail(ErrorCode::kAddressInvalid, "name of a Unix socket", static_cast<std::int64_t>(name.size()));
  sockaddr_un raw{};
  raw.sun_family = AF_UNIX;
  std::memcpy(raw.sun_path, name.data(), name.size());
  if (abstract) raw.sun_path[0] = '\0';
  // An abstract name is as long as the address says; a path ends with its NUL.
  const std::size_t length = kUnixHeader + name.size() + (abstract ? 0 : 1);
  return SocketAddress(reinterpret_cast<const sockaddr*>(&raw), static_cast<socklen_t>(length));
}

std::uint16_t SocketAddress::port() const {
  if (family() == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in*>(&storage_)->sin_port);
  if (family() == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_port);
  return 0;
}

std::string SocketAddress::to_string() const {
  if (is_unix()) return unix_text(*reinterpret_cast<const sockaddr_un*>(&storage_), length_);
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (family() == AF_INET) {
    const auto& address = *reinterpret_cast<const sockaddr_in*>(&storage_);
    ::inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size());
    return std::string(text.data()) + ":" + std::to_string(port());
  }
  if (family() == AF_INET6) {
    const auto& address = *reinterpret_cast<const sockaddr_in6*>(&storage_);
    ::inet_ntop(AF_INET6, &address.sin6_addr, text.data(), text.size());
    return "[" + std::string(text.data()) + "]:" + std::to_string(port());
  }
  return "(none)";
}

}  // namespace yonder::os
