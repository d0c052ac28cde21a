#include "yonder/fabric/shm/internal/place.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "yonder/base/secure_random.h"
#include "yonder/fabric/address.h"

namespace yonder::fabric::shm {
namespace {

constexpr std::array<std::string_view, 6> kOptions = {"model",  "latency_ns", "bandwidth_mbps",
                                                      "gap_ns", "inprocess",  "peers"};

std::unexpected<Error> invalid(const char* why) { return fail(ErrorCode::kAddressInvalid, why); }

Result<std::string> fresh_name() {
  YONDER_TRY(random, secure_random_u64());
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "auto-%016llx", static_cast<unsigned long long>(random));
  return std::string(text.data());
}

// True if the option has value `yes`, false if `no` or absent.
Result<bool> is_option(const Address& address, const char* name, std::string_view yes, std::string_view no) {
  const auto found = address.options.find(name);
  if (found == address.options.end() || found->second == no) return false;
  if (found->second == yes) return true;
  return invalid("address: an option's value");
}

}  // namespace

Result<Place> parse_place(std::string_view text, bool for_listening) {
  YONDER_TRY(address, parse_address(text));
  if (address.provider != "shm") return invalid("address: not of the shm provider");
  for (const auto& [name, value] : address.options) {
    if (std::ranges::find(kOptions, name) == kOptions.end())
      return invalid("address: unknown option for shm");
  }
  if (address.place.empty()) {
    if (!for_listening) return invalid("address: shm: needs a name to connect to");
    YONDER_TRY(name, fresh_name());
    address.place = name;
  }
  Place place;
  const bool is_path = address.place.front() == '/';
  if (is_path) place.path = address.place;
  // The user is part of an abstract name: there are no permissions there, and
  // users should not get into each other's way by accident.
  const std::string name =
      is_path ? address.place : "@yonder-shm-" + std::to_string(::geteuid()) + "-" + address.place;
  YONDER_TRY(socket, os::SocketAddress::unix_name(name));
  place.socket = socket;
  YONDER_TRY(foreign, is_option(address, "inprocess", "off", "on"));
  YONDER_TRY(any_user, is_option(address, "peers", "any", "same"));
  YONDER_TRY(model, LinkModel::from_options(address.options));
  place.foreign = foreign;
  place.any_user = any_user;
  place.model = model;
  place.text = address.to_string();
  return place;
}

}  // namespace yonder::fabric::shm
