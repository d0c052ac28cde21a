#pragma once
// The regions of a fabric, by key.
//
// Keys are 64 random bits from the kernel; a peer can only use those it was
// given. Lookups are rare: a stream remembers the binding it used last.
//
// Concurrency: any thread. Lifetime: outlives the regions it made (checked).

#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <unordered_map>

#include "yonder/base/result.h"
#include "yonder/fabric/region.h"
#include "yonder/fabric/tcp/internal/binding.h"

namespace yonder::fabric::tcp {

class RegionTable {
 public:
  RegionTable() = default;
  RegionTable(const RegionTable&) = delete;
  RegionTable& operator=(const RegionTable&) = delete;
  ~RegionTable();

  // kInvalidArgument (no memory, no rights), kUnsupported (on-demand paging).
  Result<Region> add(const RegisterOptions& options);
  // Null if no live region has this key.
  std::shared_ptr<Binding> find(std::uint64_t key) const;

 private:
  friend class TcpRegion;
  void replace(std::uint64_t key, std::shared_ptr<Binding> binding);
  void remove(std::uint64_t key);

  mutable std::shared_mutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Binding>> by_key_;  // Guarded by mutex_.
};

}  // namespace yonder::fabric::tcp
