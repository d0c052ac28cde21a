#include "yonder/fabric/address.h"

#include <algorithm>
#include <array>

namespace yonder::fabric {
namespace {

constexpr std::array<std::string_view, 4> kProviders = {"shm", "tcp", "verbs", "sim"};

std::unexpected<Error> invalid(const char* why) { return fail(ErrorCode::kAddressInvalid, why); }

Result<void> parse_options(std::string_view text, std::map<std::string, std::string>& options) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('&'), text.size());
    const std::string_view item = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t equals = std::min(item.find('='), item.size());
    if (equals == 0) return invalid("address: an option without a name");
    const std::string value(equals < item.size() ? item.substr(equals + 1) : "on");
    if (!options.emplace(item.substr(0, equals), value).second)
      return invalid("address: an option given twice");
  }
  return {};
}

}  // namespace

std::string Address::to_string() const {
  std::string text = provider + (provider == "shm" ? ":" : "://") + place;
  char separator = '?';
  for (const auto& [name, value] : options) {
    text += separator + name + "=" + value;
    separator = '&';
  }
  return text;
}

Result<Address> parse_address(std::string_view text) {
  const bool printable = std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; });
  if (text.size() > kMaxAddressLength || !printable)
    return invalid("address: too long, or control characters");
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos)
    return invalid("address: no provider (shm:, tcp://, verbs://, sim://)");
  Address address;
  address.provider = text.substr(0, colon);
  if (std::ranges::find(kProviders, address.provider) == kProviders.end())
    return invalid("address: unknown provider");
  text.remove_prefix(colon + 1);
  if (text.starts_with("//")) text.remove_prefix(2);
  const std::size_t question = std::min(text.find('?'), text.size());
  address.place = text.substr(0, question);
  if (address.place.starts_with("//")) return invalid("address: too many slashes");
  text.remove_prefix(std::min(question + 1, text.size()));
  YONDER_TRY_VOID(parse_options(text, address.options));
  return address;
}

}  // namespace yonder::fabric
