#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "yonder/fabric/types.h"
#include "yonder/fabric/verbs/internal/device.h"

namespace yonder::fabric::verbs {
namespace {

// The IPv4 address inside an IPv4-mapped GID (RoCE); empty for other GIDs.
std::string ip_of(const ibv_gid& gid) {
  constexpr std::uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (std::memcmp(gid.raw, kMapped, sizeof kMapped) != 0) return {};
  char text[INET_ADDRSTRLEN] = {};
  ::inet_ntop(AF_INET, gid.raw + 12, text, sizeof text);
  return text;
}

}  // namespace

Result<std::shared_ptr<Device>> Device::open(const std::string& name) {
  YONDER_TRY(library, load_library());
  std::shared_ptr<Device> device(new Device(library));
  int count = 0;
  device->contexts_ = library.get_devices(&count);
  if (device->contexts_ == nullptr || count == 0) {
    return fail(ErrorCode::kProviderUnavailable, "find an RDMA device", count);
  }
  if (!device->choose(name)) {
    return fail(ErrorCode::kProviderUnavailable, "find an RDMA device of this name that is up", count);
  }
  YONDER_TRY_VOID(device->set_up());
  return device;
}

Device::~Device() {
  if (pd_ != nullptr) library_.dealloc_pd(pd_);
  if (contexts_ != nullptr) library_.free_devices(contexts_);
}

bool Device::choose(const std::string& name) {
  for (ibv_context** context = contexts_; *context != nullptr; ++context) {
    const bool is_named = !name.empty() && name == library_.get_device_name((*context)->device);
    if (!name.empty() && !is_named) continue;
    ip_ = local_ip(*context);
    if (ip_.empty() && !is_named) continue;
    context_ = *context;
    return true;
  }
  return false;
}

// The first address of the device on which this process (in its own network
// namespace) could listen: binding tells, and touches nothing.
std::string Device::local_ip(ibv_context* context) const {
  constexpr int kEntries = 16;
  for (int index = 0; index < kEntries; ++index) {
    ibv_gid gid{};
    if (library_.query_gid(context, 1, index, &gid) != 0) break;
    const std::string ip = ip_of(gid);
    if (ip.empty()) continue;
    rdma_cm_id* id = nullptr;
    if (library_.create_id(nullptr, &id, nullptr, RDMA_PS_TCP) != 0) return {};
    sockaddr_in address{};
    address.sin_family = AF_INET;
    ::inet_pton(AF_INET, ip.c_str(), &address.sin_addr);
    const bool ours =
        library_.bind_addr(id, reinterpret_cast<sockaddr*>(&address)) == 0 && id->verbs == context;
    library_.destroy_id(id);
    if (ours) return ip;
  }
  return {};
}

Result<void> Device::set_up() {
  if (library_.query_device(context_, &attributes_) != 0) return fail_errno("ibv_query_device");
  pd_ = library_.alloc_pd(context_);
  if (pd_ == nullptr) return std::unexpected(device_error("ibv_alloc_pd"));
  query_on_demand_paging();
  max_inline_ = probe_inline();
  return {};
}

std::uint32_t Device::max_pieces() const {
  int pieces = std::min<int>(attributes_.max_sge, kMaxPieces);
  if (attributes_.max_sge_rd > 0) pieces = std::min(pieces, attributes_.max_sge_rd);
  return static_cast<std::uint32_t>(pieces);
}

// Not by ibv_query_device_ex: that inline function would need the library linked.
// A context has the function if it reaches down to its place: the structure grew
// at the front from version to version.
void Device::query_on_demand_paging() {
  verbs_context* extended = ::verbs_get_ctx(context_);
  constexpr std::size_t kReach = sizeof(verbs_context) - offsetof(verbs_context, query_device_ex);
  if (extended == nullptr || extended->sz < kReach || extended->query_device_ex == nullptr) return;
  ibv_device_attr_ex attributes{};
  if (extended->query_device_ex(context_, nullptr, &attributes, sizeof attributes) != 0) return;
  constexpr std::uint32_t kNeeded = IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_WRITE;
  on_demand_paging_ = (attributes.odp_caps.general_caps & IBV_ODP_SUPPORT) != 0 &&
                      (attributes.odp_caps.per_transport_caps.rc_odp_caps & kNeeded) == kNeeded;
}

// No attribute says how much a device takes inline; making a queue pair does.
std::uint32_t Device::probe_inline() const {
  ibv_cq* cq = library_.create_cq(context_, 1, nullptr, nullptr, 0);
  if (cq == nullptr) return 0;
  std::uint32_t found = 0;
  for (std::uint32_t wanted = 256; wanted >= 32 && found == 0; wanted /= 2) {
    ibv_qp_init_attr attributes{};
    attributes.send_cq = attributes.recv_cq = cq;
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap = {.max_send_wr = 1,
                      .max_recv_wr = 1,
                      .max_send_sge = max_pieces(),
                      .max_recv_sge = 1,
                      .max_inline_data = wanted};
    ibv_qp* qp = library_.create_qp(pd_, &attributes);
    if (qp == nullptr) continue;
    found = wanted;
    library_.destroy_qp(qp);
  }
  library_.destroy_cq(cq);
  return found;
}

Error device_error(const char* call) {
  switch (errno) {
    case ENOMEM:
    case ENOSPC:
    case EAGAIN:  // What the rdma control group says.
      return Error(ErrorCode::kResourceExhausted, call, errno);
    default:
      return Error::from_errno(call);
  }
}

}  // namespace yonder::fabric::verbs
