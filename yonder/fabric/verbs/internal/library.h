#pragma once
// The functions of libibverbs and librdmacm that we call, found at run time.
//
// Linking them would make every Yonder binary depend on RDMA packages. The
// functions of verbs.h that go through a context's own table (posting, polling)
// need no symbol and are used directly; its inline functions that fall back to a
// symbol must not be called, or the linker asks for the library after all.
//
// Each symbol is asked for by the version we were compiled against: without one
// dlsym could give an incompatible newer function.
//
// Concurrency: immutable once loaded. Lifetime: never unloaded, because the
// libraries keep threads' and devices' state of their own.

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "yonder/base/result.h"

namespace yonder::fabric::verbs {

struct Library {
  // libibverbs
  decltype(&::ibv_get_device_name) get_device_name = nullptr;
  decltype(&::ibv_query_device) query_device = nullptr;
  decltype(&::ibv_query_gid) query_gid = nullptr;
  decltype(&::ibv_alloc_pd) alloc_pd = nullptr;
  decltype(&::ibv_dealloc_pd) dealloc_pd = nullptr;
  decltype(&::ibv_reg_mr_iova2) reg_mr = nullptr;  // With an address of our choice.
  decltype(&::ibv_dereg_mr) dereg_mr = nullptr;
  decltype(&::ibv_create_comp_channel) create_comp_channel = nullptr;
  decltype(&::ibv_destroy_comp_channel) destroy_comp_channel = nullptr;
  decltype(&::ibv_create_cq) create_cq = nullptr;
  decltype(&::ibv_destroy_cq) destroy_cq = nullptr;
  decltype(&::ibv_get_cq_event) get_cq_event = nullptr;
  decltype(&::ibv_ack_cq_events) ack_cq_events = nullptr;
  decltype(&::ibv_create_srq) create_srq = nullptr;
  decltype(&::ibv_destroy_srq) destroy_srq = nullptr;
  decltype(&::ibv_create_qp) create_qp = nullptr;
  decltype(&::ibv_modify_qp) modify_qp = nullptr;
  decltype(&::ibv_destroy_qp) destroy_qp = nullptr;
  // librdmacm
  decltype(&::rdma_get_devices) get_devices = nullptr;
  decltype(&::rdma_free_devices) free_devices = nullptr;
  decltype(&::rdma_create_event_channel) create_event_channel = nullptr;
  decltype(&::rdma_destroy_event_channel) destroy_event_channel = nullptr;
  decltype(&::rdma_get_cm_event) get_cm_event = nullptr;
  decltype(&::rdma_ack_cm_event) ack_cm_event = nullptr;
  decltype(&::rdma_create_id) create_id = nullptr;
  decltype(&::rdma_destroy_id) destroy_id = nullptr;
  decltype(&::rdma_bind_addr) bind_addr = nullptr;
  decltype(&::rdma_listen) listen = nullptr;
  decltype(&::rdma_resolve_addr) resolve_addr = nullptr;
  decltype(&::rdma_resolve_route) resolve_route = nullptr;
  decltype(&::rdma_connect) connect = nullptr;
  decltype(&::rdma_establish) establish = nullptr;
  decltype(&::rdma_accept) accept = nullptr;
  decltype(&::rdma_reject) reject = nullptr;
  decltype(&::rdma_disconnect) disconnect = nullptr;
  decltype(&::rdma_init_qp_attr) init_qp_attr = nullptr;
  decltype(&::rdma_get_src_port) get_src_port = nullptr;
};

struct LibraryNames {
  const char* ibverbs = "libibverbs.so.1";
  const char* rdmacm = "librdmacm.so.1";
};

// kProviderUnavailable if a library or one of its functions is missing.
Result<Library> load_library(const LibraryNames& names = {});

}  // namespace yonder::fabric::verbs
