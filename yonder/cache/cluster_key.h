#pragma once
// ClusterKey: the secret that the servers of a cluster share (--cluster-key=FILE).
//
// With it everything between servers is TLS 1.3 with this key: the directory, the hand-over
// of partitions, and forwarded commands. Who does not have it is not let in, and cannot
// pretend to be a server; no certificates are needed for it. What clients use (-Z, -Y) is
// another matter: a server that proves the key needs neither (ADR 32).
//
//   openssl rand -hex 32 > cluster.key; chmod 600 cluster.key        # the same file on all hosts
//
// Concurrency: a value that does not change. Lifetime: shared by those who use it.

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "yonder/base/result.h"

namespace yonder::cache {

class ClusterKey {
 public:
  // By which name servers offer it.
  static constexpr std::string_view kIdentity = "rcached";

  // 16 to 64 bytes in hexadecimal; spaces and line ends are skipped. kConfigInvalid: the file
  // cannot be read, is something else, or may be read by every user of this host.
  static Result<std::shared_ptr<const ClusterKey>> read(const std::string& path);

  const std::string& path() const { return path_; }
  std::span<const unsigned char> bytes() const { return bytes_; }
  // An address of the tcp fabric, with this key. kInvalidArgument: of another provider, or
  // one that names TLS options itself.
  Result<std::string> guard(const std::string& address) const;

 private:
  ClusterKey(std::string path, std::vector<unsigned char> bytes)
      : path_(std::move(path)), bytes_(std::move(bytes)) {}
  std::string path_;
  std::vector<unsigned char> bytes_;
};

}  // namespace yonder::cache
