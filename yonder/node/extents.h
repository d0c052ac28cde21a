#pragma once
// Extents: named pieces of a node's memory that clients use as they like.
//
// Objects are the node's: it places them, moves them, and lets nobody else write. An
// extent is the clients': the node makes it, zeroed, gives whoever knows its name the
// right to read, write and do atomics in all of it, and then has no part in what happens
// there. Tables, logs and pages that programs keep in remote memory with one-sided
// operations live in extents (yonder/structures).
//
// A name belongs to a tenant; another tenant's extent of the same name is another one,
// and its region refuses foreign endpoints where the provider can (Capabilities::
// enforces_tenants). A name has 1 to 64 characters: letters, digits, '.', '_', '-', '/'.
//
// An extent lives until it is removed, or the node ends: no keeper holds it. Its memory
// is taken from the system as it is touched (on verbs at once: the NIC pins it), and
// counts in full against the limit.
//
//   state    | create          | open        | remove
//   ---------+-----------------+-------------+---------------------------------
//   absent   | made            | kNotFound   | kNotFound
//   present  | kAlreadyExists  | its token   | absent; tokens are revoked
//
// Concurrency: any thread.
// Lifetime: the fabrics outlive it; tokens end with remove(), close() or the store.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "yonder/base/id.h"
#include "yonder/base/result.h"
#include "yonder/base/units.h"
#include "yonder/fabric/fabric.h"
#include "yonder/fabric/region.h"
#include "yonder/os/fd.h"
#include "yonder/os/mapping.h"
#include "yonder/os/memfd.h"
#include "yonder/sync/mutex.h"

namespace yonder::node {

inline constexpr std::size_t kMaxExtentName = 64;

struct ExtentLimits {
  Bytes bytes = Bytes(std::uint64_t{1} << 30);  // of all extents together; 0: there are none
  std::uint32_t count = 1024;
  os::HugePages huge_pages = os::HugePages::kIfAvailable;
};

struct ExtentInfo {
  TenantId tenant{0};
  std::string name;
  std::uint64_t bytes = 0;
};

// The memory of an extent, for a process of the node's own that is to work in it.
struct ExtentFile {
  os::Fd fd;
  std::uint64_t bytes = 0;
};

class ExtentStore {
 public:
  // Tokens are for the clients of one of `fabrics`, by its number.
  ExtentStore(std::vector<fabric::Fabric*> fabrics, const ExtentLimits& limits)
      : fabrics_(std::move(fabrics)), limits_(limits) {}

  // A new extent of at least `bytes` zero bytes (whole pages). kInvalidArgument (name, no
  // bytes), kAlreadyExists, kOutOfMemory (the limit, or the system), kResourceExhausted
  // (too many), kClosed; errors of Fabric::register_memory.
  Result<fabric::RegionToken> create(TenantId tenant, std::string_view name, std::uint64_t bytes,
                                     std::size_t fabric);
  // kNotFound, kInvalidArgument (name), kClosed; errors of Fabric::register_memory.
  Result<fabric::RegionToken> open(TenantId tenant, std::string_view name, std::size_t fabric);
  // Nobody reaches the memory when it returns. kNotFound, kInvalidArgument, kClosed.
  Result<void> remove(TenantId tenant, std::string_view name);

  // A number that no other extent of this store has or had, whatever its name. kNotFound,
  // kInvalidArgument, kClosed.
  Result<std::uint64_t> number_of(TenantId tenant, std::string_view name) const;
  // Of the extent with that number: kNotFound if the name is another one's by now.
  Result<ExtentFile> file(TenantId tenant, std::string_view name, std::uint64_t number) const;

  std::vector<ExtentInfo> list() const;
  std::uint64_t bytes() const;
  // Removes all, for ever.
  void close();

 private:
  struct Extent {
    os::Memfd memfd;
    os::Mapping memory;
    std::uint64_t number = 0;
    std::vector<std::optional<fabric::Region>> regions;  // Per fabric; made when asked for.
  };
  using Name = std::pair<std::uint32_t, std::string>;

  Result<std::unique_ptr<Extent>> make(std::uint64_t bytes) const;
  Result<const Extent*> find(TenantId tenant, std::string_view name) const YONDER_REQUIRES(mutex_);
  Result<fabric::RegionToken> token(Extent& extent, TenantId tenant, std::size_t fabric) const;

  const std::vector<fabric::Fabric*> fabrics_;
  const ExtentLimits limits_;
  mutable sync::Mutex mutex_;
  bool closed_ YONDER_GUARDED_BY(mutex_) = false;
  std::uint64_t bytes_ YONDER_GUARDED_BY(mutex_) = 0;
  std::uint64_t made_ YONDER_GUARDED_BY(mutex_) = 0;
  std::map<Name, std::unique_ptr<Extent>, std::less<>> extents_ YONDER_GUARDED_BY(mutex_);
};

}  // namespace yonder::node
