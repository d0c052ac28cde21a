#include "yonder/cache/auth.h"

#include <fstream>

namespace yonder::cache {
namespace {

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

}  // namespace

Result<AuthTokens> AuthTokens::read(const std::string& path) {
  constexpr std::size_t kMaxLine = 256;
  std::ifstream file(path);
  if (!file) return fail_errno("open the file of -Y");
  AuthTokens out;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) continue;
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || line.size() > kMaxLine) {
      return fail(ErrorCode::kConfigInvalid, "the file of -Y has lines user:password");
    }
    if (out.entries_.size() == kMaxEntries)
      return fail(ErrorCode::kConfigInvalid, "the file of -Y has 8 lines at most");
    out.entries_.emplace_back(line.substr(0, colon), line.substr(colon + 1));
  }
  if (out.entries_.empty()) return fail(ErrorCode::kConfigInvalid, "the file of -Y names nobody");
  return out;
}

bool AuthTokens::check(std::string_view user, std::string_view password) const {
  bool known = false;
  for (const auto& [name, secret] : entries_) {
    known |= equal_in_constant_time(name, user) && equal_in_constant_time(secret, password);
  }
  return known;
}

}  // namespace yonder::cache
