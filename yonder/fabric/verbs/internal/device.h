#pragma once
// One RDMA device, opened: its context, protection domain and limits.
//
// The context is librdmacm's own, because a queue pair and the connection that
// carries it must belong to the same context.
//
// Concurrency: immutable once open. Lifetime: shared by everything that uses the
// device; the protection domain goes with the last user.

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <string>

#include "yonder/base/result.h"
#include "yonder/fabric/verbs/internal/library.h"

namespace yonder::fabric::verbs {

class Device {
 public:
  // `name` empty: the first device that is up and whose address is ours.
  // Errors: kProviderUnavailable (no such device), kResourceExhausted, kOsError.
  static Result<std::shared_ptr<Device>> open(const std::string& name);

  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Library& library() const { return library_; }
  ibv_context* context() const { return context_; }
  ibv_pd* pd() const { return pd_; }
  const ibv_device_attr& attributes() const { return attributes_; }
  // Reads and writes of a reliable connection can fault pages in by themselves.
  bool on_demand_paging() const { return on_demand_paging_; }
  // What a queue pair really takes inline; 0 if nothing.
  std::uint32_t max_inline() const { return max_inline_; }
  std::uint32_t max_pieces() const;
  // "10.77.0.1": what to listen on by default; empty if the device has no IP.
  const std::string& ip() const { return ip_; }

 private:
  explicit Device(const Library& library) : library_(library) {}
  bool choose(const std::string& name);
  std::string local_ip(ibv_context* context) const;
  Result<void> set_up();
  void query_on_demand_paging();
  std::uint32_t probe_inline() const;

  Library library_;
  ibv_context** contexts_ = nullptr;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_device_attr attributes_{};
  std::string ip_;
  std::uint32_t max_inline_ = 0;
  bool on_demand_paging_ = false;
};

// Why the device did not make something, by errno: kResourceExhausted where it (or
// the rdma control group of this process) holds no more of them.
Error device_error(const char* call);

}  // namespace yonder::fabric::verbs
