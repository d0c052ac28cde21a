#pragma once
// The link model: makes shared memory as slow as a network, in real time.
//
// Without hardware, far-memory experiments on one host would compare everything
// with a memory copy. With a model, the completion of a one-sided operation is
// held back until the modelled link would have delivered it:
//
//   start    = max(now, link free)         a connection sends one message at a time
//   link free = start + max(gap, bytes / bandwidth)
//   due      = link free + latency         round trip of an empty operation
//
// The bytes are moved at once (their effect is early, their completion is not),
// and poll()/wait() spin until the earliest is due. Off by default, at the cost
// of one predictable branch.
//
//   name      | latency | bandwidth | gap    | after
//   rdma200g  | 1.6 µs  | 25 GB/s   | 5 ns   | ConnectX-6-like, one switch
//   rdma100g  | 1.8 µs  | 12.5 GB/s | 8 ns   | ConnectX-5-like, one switch
//   rdma40g   | 2.2 µs  | 5 GB/s    | 20 ns  | ConnectX-3-like, one switch
//   cxl       | 0.4 µs  | 30 GB/s   | 0      | memory behind one CXL switch
//   tcp25g    | 18 µs   | 3.1 GB/s  | 400 ns | kernel TCP
//   tcp10g    | 25 µs   | 1.25 GB/s | 700 ns | kernel TCP
//
// Concurrency: the endpoint's thread. Lifetime: a value.

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "yonder/base/result.h"
#include "yonder/base/time.h"

namespace yonder::fabric::shm {

struct LinkModel {
  std::int64_t latency_ns = 0;
  std::int64_t gap_ns = 0;
  std::uint64_t bandwidth_mbps = 0;  // megabytes per second; 0: no limit

  // From address options model=NAME, latency_ns=, bandwidth_mbps=, gap_ns=
  // (numbers refine a preset); nothing if none is given. kAddressInvalid.
  static Result<std::optional<LinkModel>> from_options(const std::map<std::string, std::string>& options);
};

// The modelled link of one connection.
class PacedLink {
 public:
  explicit PacedLink(const LinkModel& model) : model_(model) {}
  // When an operation of `bytes` posted now completes.
  Instant due(Instant now, std::uint64_t bytes);

 private:
  LinkModel model_;
  Instant free_;
};

}  // namespace yonder::fabric::shm
