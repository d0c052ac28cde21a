#pragma once
// The shm provider: one-sided access between processes of one host by mapping
// the target's memory, and within one process by its address.
//
//   auto fabric = shm::open({});
//   auto listener = (*fabric)->listen({.address = "shm:node-1", .passive = true});
//   … in another process …
//   auto endpoint = (*fabric)->connect({.address = "shm:node-1"}, **queue);
//
// Addresses: shm:NAME (a name in the abstract socket space of this user),
// shm:/absolute/path (a socket in the file system, with its permissions),
// shm: when listening (a fresh name; see Listener::address()). Options:
//
//   model=NAME, latency_ns=N, bandwidth_mbps=N, gap_ns=N   a link model (link_model.h)
//   inprocess=off   treat a peer in our own process like any other
//   peers=any       talk to processes of other users (default: our own and root)
//
// Concurrency and lifetime: fabric.h.

#include <memory>

#include "yonder/base/result.h"
#include "yonder/fabric/fabric.h"

namespace yonder::fabric::shm {

struct Options {
  // Off: fences on the data path instead of membarrier, as on kernels without it.
  bool use_membarrier = true;
};

// kResourceExhausted (descriptors), kOutOfMemory, kUnsupported (a sandbox that
// forbids memfds or sockets).
Result<std::unique_ptr<Fabric>> open(const Options& options);

}  // namespace yonder::fabric::shm
