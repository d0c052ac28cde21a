#include "yonder/fabric/open/open.h"

#include <string>

#include "yonder/fabric/address.h"
#include "yonder/fabric/shm/shm.h"
#include "yonder/fabric/tcp/tcp.h"
#include "yonder/fabric/verbs/verbs.h"

namespace yonder::fabric {

Result<std::unique_ptr<Fabric>> open(std::string_view address) {
  YONDER_TRY(parsed, parse_address(address));
  if (parsed.provider == "shm") return shm::open({});
  if (parsed.provider == "tcp") return tcp::open({});
  if (parsed.provider == "verbs") return verbs::open({});
  return fail(ErrorCode::kUnsupported, "open a fabric: sim is made from a sim::World");
}

std::vector<ProviderStatus> probe_providers() {
  std::vector<ProviderStatus> all;
  for (const std::string_view name : {"shm", "tcp", "verbs"}) {
    all.push_back({name, outcome_of(open(std::string(name) + ":"))});
  }
  return all;
}

}  // namespace yonder::fabric
