#pragma once
// A tcp address, taken apart: where, and under which security.
//
//   tcp://host:port
//   tcp://host:port?tls=on&ca=FILE&cert=FILE&key=FILE       mutual certificates
//   tcp://host:port?tls=on&psk=FILE&psk_identity=NAME       a pre-shared key
//
// Concurrency: values.

#include <optional>
#include <string>
#include <string_view>

#include "yonder/base/result.h"

namespace yonder::fabric::tcp {

struct TlsSettings {
  std::string ca;    // PEM: whom we trust
  std::string cert;  // PEM: who we are
  std::string key;   // PEM: its private key
  std::string psk;   // a file with the key: hexadecimal, 16 to 64 bytes
  std::string psk_identity;

  friend bool operator==(const TlsSettings&, const TlsSettings&) = default;
};

struct Settings {
  std::string host_port;
  std::optional<TlsSettings> tls;

  // kAddressInvalid for another provider, no port, an unknown option, or TLS
  // options that are neither all of certificates nor all of a pre-shared key.
  static Result<Settings> parse(std::string_view address);
  // The same address with another place, for Listener::address().
  std::string address(std::string_view place) const;
};

}  // namespace yonder::fabric::tcp
