#include "yonder/cache/cluster_key.h"

#include <sys/stat.h>

#include <charconv>
#include <fstream>
#include <iterator>
#include <utility>

#include "yonder/fabric/address.h"

namespace yonder::cache {
namespace {

// The tcp fabric's bounds: the same file is its pre-shared key.
constexpr std::size_t kMinBytes = 16;
constexpr std::size_t kMaxBytes = 64;

Result<std::vector<unsigned char>> decode(std::string text) {
  std::erase_if(text, [](char c) { return c == '\n' || c == '\r' || c == ' '; });
  if (text.size() % 2 != 0 || text.size() < 2 * kMinBytes || text.size() > 2 * kMaxBytes)
    return fail(ErrorCode::kConfigInvalid, "a cluster key has 16 to 64 bytes, in hexadecimal");
  std::vector<unsigned char> bytes(text.size() / 2);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const char* digits = text.data() + 2 * i;
    const auto [end, error] = std::from_chars(digits, digits + 2, bytes[i], 16);
    if (error != std::errc() || end != digits + 2)
      return fail(ErrorCode::kConfigInvalid, "a cluster key is hexadecimal");
  }
  return bytes;
}

}  // namespace

Result<std::shared_ptr<const ClusterKey>> ClusterKey::read(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0)
    return fail(ErrorCode::kConfigInvalid, "the cluster key cannot be read");
  if ((status.st_mode & S_IROTH) != 0)
    return fail(ErrorCode::kConfigInvalid, "every user may read the cluster key: chmod o-r");
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) return fail(ErrorCode::kConfigInvalid, "the cluster key cannot be read");
  YONDER_TRY(bytes, decode(text));
  return std::shared_ptr<const ClusterKey>(new ClusterKey(path, std::move(bytes)));
}

Result<std::string> ClusterKey::guard(const std::string& address) const {
  YONDER_TRY(parsed, fabric::parse_address(address));
  if (parsed.provider != "tcp" || parsed.options.contains("tls"))
    return fail(ErrorCode::kInvalidArgument, "a cluster key goes with tcp:// addresses without TLS options");
  parsed.options["tls"] = "on";
  parsed.options["psk"] = path_;
  parsed.options["psk_identity"] = kIdentity;
  return parsed.to_string();
}

}  // namespace yonder::cache
