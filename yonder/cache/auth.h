#pragma once
// AuthTokens: who may talk to the server (-Y), as lines "user:password" of a file.
//
// A client proves itself with a fake set before anything else:
//   set anykey 0 0 LENGTH\r\nuser password\r\n
//
// Concurrency: check() from any thread. Lifetime: owns copies.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "yonder/base/result.h"

namespace yonder::cache {

class AuthTokens {
 public:
  static constexpr std::size_t kMaxEntries = 8;  // memcached's bound.

  // Errors: kNotFound, kPermissionDenied, kConfigInvalid (no line, too many, a line
  // without ':' or longer than 256 bytes).
  static Result<AuthTokens> read(const std::string& path);

  // Takes the same time for any password of the same length.
  bool check(std::string_view user, std::string_view password) const;

 private:
  std::vector<std::pair<std::string, std::string>> entries_;
};

}  // namespace yonder::cache
