#include "yonder/fabric/tcp/internal/settings.h"

#include <map>

#include "yonder/fabric/address.h"
#include "yonder/os/address.h"

namespace yonder::fabric::tcp {
namespace {

std::unexpected<Error> invalid(const char* why) { return fail(ErrorCode::kAddressInvalid, why); }

Result<std::optional<TlsSettings>> parse_tls(std::map<std::string, std::string> options) {
  TlsSettings tls;
  const std::map<std::string_view, std::string*> known = {{"ca", &tls.ca},
                                                          {"cert", &tls.cert},
                                                          {"key", &tls.key},
                                                          {"psk", &tls.psk},
                                                          {"psk_identity", &tls.psk_identity}};
  const std::string mode = options.contains("tls") ? options.extract("tls").mapped() : "off";
  if (mode != "on" && mode != "off") return invalid("tcp address: tls is on or off");
  for (auto& [name, value] : options) {
    const auto field = known.find(name);
    if (field == known.end()) return invalid("tcp address: unknown option");
    if (mode == "off") return invalid("tcp address: a TLS option without tls=on");
    *field->second = value;
  }
  if (mode == "off") return std::nullopt;
  const bool has_psk = !tls.psk.empty() && !tls.psk_identity.empty();
  const bool has_certificates = !tls.ca.empty() && !tls.cert.empty() && !tls.key.empty();
  const bool mixes = has_psk && !(tls.ca.empty() && tls.cert.empty() && tls.key.empty());
  if (has_psk == has_certificates || mixes)
    return invalid("tcp address: tls=on needs ca, cert and key, or psk and psk_identity");
  return tls;
}

}  // namespace

Result<Settings> Settings::parse(std::string_view text) {
  YONDER_TRY(address, parse_address(text));
  if (address.provider != "tcp") return invalid("tcp address: another provider");
  YONDER_TRY_VOID(os::parse_host_port(address.place));
  YONDER_TRY(tls, parse_tls(address.options));
  return Settings{.host_port = address.place, .tls = std::move(tls)};
}

std::string Settings::address(std::string_view place) const {
  Address out{.provider = "tcp", .place = std::string(place), .options = {}};
  if (tls) {
    out.options["tls"] = "on";
    const auto add = [&out](const char* name, const std::string& value) {
      if (!value.empty()) out.options[name] = value;
    };
    add("ca", tls->ca);
    add("cert", tls->cert);
    add("key", tls->key);
    add("psk", tls->psk);
    add("psk_identity", tls->psk_identity);
  }
  return out.to_string();
}

}  // namespace yonder::fabric::tcp
