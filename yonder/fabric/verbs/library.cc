#include <dlfcn.h>

#include "yonder/fabric/verbs/internal/library.h"

namespace yonder::fabric::verbs {
namespace {

// Looks functions up in one loaded library and remembers whether all were there.
class Symbols {
 public:
  explicit Symbols(void* handle) : handle_(handle) {}

  template <typename Function>
  void find(Function& function, const char* name, const char* version) {
    function = reinterpret_cast<Function>(::dlvsym(handle_, name, version));
    complete_ &= function != nullptr;
  }
  bool complete() const { return complete_; }

 private:
  void* handle_;
  bool complete_ = true;
};

bool find_ibverbs(void* handle, Library& out) {
  constexpr const char* kFirst = "IBVERBS_1.0";
  constexpr const char* kCommon = "IBVERBS_1.1";
  Symbols in(handle);
  in.find(out.get_device_name, "ibv_get_device_name", kCommon);
  in.find(out.query_device, "ibv_query_device", kCommon);
  in.find(out.query_gid, "ibv_query_gid", kCommon);
  in.find(out.alloc_pd, "ibv_alloc_pd", kCommon);
  in.find(out.dealloc_pd, "ibv_dealloc_pd", kCommon);
  in.find(out.reg_mr, "ibv_reg_mr_iova2", "IBVERBS_1.8");
  in.find(out.dereg_mr, "ibv_dereg_mr", kCommon);
  in.find(out.create_comp_channel, "ibv_create_comp_channel", kFirst);
  in.find(out.destroy_comp_channel, "ibv_destroy_comp_channel", kFirst);
  in.find(out.create_cq, "ibv_create_cq", kCommon);
  in.find(out.destroy_cq, "ibv_destroy_cq", kCommon);
  in.find(out.get_cq_event, "ibv_get_cq_event", kCommon);
  in.find(out.ack_cq_events, "ibv_ack_cq_events", kCommon);
  in.find(out.create_srq, "ibv_create_srq", kCommon);
  in.find(out.destroy_srq, "ibv_destroy_srq", kCommon);
  in.find(out.create_qp, "ibv_create_qp", kCommon);
  in.find(out.modify_qp, "ibv_modify_qp", kCommon);
  in.find(out.destroy_qp, "ibv_destroy_qp", kCommon);
  return in.complete();
}

bool find_rdmacm(void* handle, Library& out) {
  constexpr const char* kCommon = "RDMACM_1.0";
  constexpr const char* kOwnQueuePairs = "RDMACM_1.2";
  Symbols in(handle);
  in.find(out.get_devices, "rdma_get_devices", kCommon);
  in.find(out.free_devices, "rdma_free_devices", kCommon);
  in.find(out.create_event_channel, "rdma_create_event_channel", kCommon);
  in.find(out.destroy_event_channel, "rdma_destroy_event_channel", kCommon);
  in.find(out.get_cm_event, "rdma_get_cm_event", kCommon);
  in.find(out.ack_cm_event, "rdma_ack_cm_event", kCommon);
  in.find(out.create_id, "rdma_create_id", kCommon);
  in.find(out.destroy_id, "rdma_destroy_id", kCommon);
  in.find(out.bind_addr, "rdma_bind_addr", kCommon);
  in.find(out.listen, "rdma_listen", kCommon);
  in.find(out.resolve_addr, "rdma_resolve_addr", kCommon);
  in.find(out.resolve_route, "rdma_resolve_route", kCommon);
  in.find(out.connect, "rdma_connect", kCommon);
  in.find(out.establish, "rdma_establish", kOwnQueuePairs);
  in.find(out.accept, "rdma_accept", kCommon);
  in.find(out.reject, "rdma_reject", kCommon);
  in.find(out.disconnect, "rdma_disconnect", kCommon);
  in.find(out.init_qp_attr, "rdma_init_qp_attr", kOwnQueuePairs);
  in.find(out.get_src_port, "rdma_get_src_port", kCommon);
  return in.complete();
}

}  // namespace

Result<Library> load_library(const LibraryNames& names) {
  Library library;
  void* ibverbs = ::dlopen(names.ibverbs, RTLD_NOW | RTLD_LOCAL);
  if (ibverbs == nullptr) {
    return fail(ErrorCode::kProviderUnavailable, "load libibverbs.so.1 (Debian package libibverbs1)");
  }
  if (!find_ibverbs(ibverbs, library)) {
    return fail(ErrorCode::kProviderUnavailable, "libibverbs.so.1 is older than version 28 (IBVERBS_1.8)");
  }
  void* rdmacm = ::dlopen(names.rdmacm, RTLD_NOW | RTLD_LOCAL);
  if (rdmacm == nullptr) {
    return fail(ErrorCode::kProviderUnavailable, "load librdmacm.so.1 (Debian package librdmacm1)");
  }
  if (!find_rdmacm(rdmacm, library)) {
    return fail(ErrorCode::kProviderUnavailable, "librdmacm.so.1 is older than version 23 (RDMACM_1.2)");
  }
  return library;
}

}  // namespace yonder::fabric::verbs
