#include "yonder/node/extents.h"

#include <algorithm>

#include "yonder/base/check.h"

namespace yonder::node {

namespace {

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
         c == '-' || c == '/';
}

Result<void> check_name(std::string_view name) {
  if (name.empty() || name.size() > kMaxExtentName || !std::ranges::all_of(name, is_name_character)) {
    return fail(ErrorCode::kInvalidArgument, "extent: its name", name.size());
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<ExtentStore::Extent>> ExtentStore::make(std::uint64_t bytes) const {
  YONDER_TRY(memfd,
             os::Memfd::create({.name = "yonder-extent", .size = bytes, .huge_pages = limits_.huge_pages}));
  // Whoever maps it relies on its size.
  YONDER_TRY_VOID(memfd.seal(os::kSealShrink | os::kSealGrow));
  YONDER_TRY(memory, os::Mapping::of_file(memfd.fd(),
                                          {.bytes = memfd.size(), .protection = os::Protection::kReadWrite}));
  Extent extent{.memfd = std::move(memfd), .memory = std::move(memory), .number = 0, .regions = {}};
  extent.regions.resize(fabrics_.size());
  return std::make_unique<Extent>(std::move(extent));
}

Result<fabric::RegionToken> ExtentStore::token(Extent& extent, TenantId tenant, std::size_t fabric) const {
  YONDER_CHECK(fabric < fabrics_.size(), "the store knows the fabric");
  std::optional<fabric::Region>& region = extent.regions[fabric];
  if (!region) {
    YONDER_TRY(made,
               fabrics_[fabric]->register_memory({.memory = extent.memory.bytes(),
                                                  .rights = fabric::Rights::kAll,
                                                  .backing = fabric::Backing{.fd = extent.memfd.fd().get()},
                                                  .tenant = tenant}));
    region = std::move(made);
  }
  return region->token();
}

Result<fabric::RegionToken> ExtentStore::create(TenantId tenant, std::string_view name, std::uint64_t bytes,
                                                std::size_t fabric) {
  YONDER_TRY_VOID(check_name(name));
  if (bytes == 0) return fail(ErrorCode::kInvalidArgument, "extent without bytes");
  sync::LockGuard lock(mutex_);
  if (closed_) return fail(ErrorCode::kClosed, "extents of a node that ends");
  Name key(tenant.value(), name);
  if (extents_.contains(key)) return fail(ErrorCode::kAlreadyExists, "extent of this name");
  if (extents_.size() >= limits_.count) {
    return fail(ErrorCode::kResourceExhausted, "extents of this node", extents_.size());
  }
  // Compared before it is rounded up: a peer's number may be near the end of the range.
  if (bytes > limits_.bytes.count() || bytes_ > limits_.bytes.count() - bytes) {
    return fail(ErrorCode::kOutOfMemory, "the node's limit for extents", limits_.bytes.count());
  }
  YONDER_TRY(extent, make(bytes));
  YONDER_TRY(made, token(*extent, tenant, fabric));
  bytes_ += extent->memfd.size();
  extent->number = ++made_;
  extents_.emplace(std::move(key), std::move(extent));
  return made;
}

Result<fabric::RegionToken> ExtentStore::open(TenantId tenant, std::string_view name, std::size_t fabric) {
  YONDER_TRY_VOID(check_name(name));
  sync::LockGuard lock(mutex_);
  if (closed_) return fail(ErrorCode::kClosed, "extents of a node that ends");
  const auto found = extents_.find(Name(tenant.value(), name));
  if (found == extents_.end()) return fail(ErrorCode::kNotFound, "extent of this name");
  return token(*found->second, tenant, fabric);
}

Result<void> ExtentStore::remove(TenantId tenant, std::string_view name) {
  YONDER_TRY_VOID(check_name(name));
  std::unique_ptr<Extent> removed;
  {
    sync::LockGuard lock(mutex_);
    if (closed_) return fail(ErrorCode::kClosed, "extents of a node that ends");
    const auto found = extents_.find(Name(tenant.value(), name));
    if (found == extents_.end()) return fail(ErrorCode::kNotFound, "extent of this name");
    bytes_ -= found->second->memfd.size();
    removed = std::move(found->second);
    extents_.erase(found);
  }
  // Revoking waits for accesses under way: not with the lock.
  for (std::optional<fabric::Region>& region : removed->regions) region.reset();
  return {};
}

Result<const ExtentStore::Extent*> ExtentStore::find(TenantId tenant, std::string_view name) const {
  YONDER_TRY_VOID(check_name(name));
  if (closed_) return fail(ErrorCode::kClosed, "extents of a node that ends");
  const auto found = extents_.find(Name(tenant.value(), name));
  if (found == extents_.end()) return fail(ErrorCode::kNotFound, "extent of this name");
  return found->second.get();
}

Result<std::uint64_t> ExtentStore::number_of(TenantId tenant, std::string_view name) const {
  sync::LockGuard lock(mutex_);
  YONDER_TRY(extent, find(tenant, name));
  return extent->number;
}

Result<ExtentFile> ExtentStore::file(TenantId tenant, std::string_view name, std::uint64_t number) const {
  sync::LockGuard lock(mutex_);
  YONDER_TRY(extent, find(tenant, name));
  if (extent->number != number) return fail(ErrorCode::kNotFound, "extent that was removed");
  YONDER_TRY(fd, extent->memfd.fd().duplicate());
  return ExtentFile{.fd = std::move(fd), .bytes = extent->memfd.size()};
}

std::vector<ExtentInfo> ExtentStore::list() const {
  sync::LockGuard lock(mutex_);
  std::vector<ExtentInfo> out;
  out.reserve(extents_.size());
  for (const auto& [name, extent] : extents_) {
    out.push_back({.tenant = TenantId(name.first), .name = name.second, .bytes = extent->memfd.size()});
  }
  return out;
}

std::uint64_t ExtentStore::bytes() const {
  sync::LockGuard lock(mutex_);
  return bytes_;
}

void ExtentStore::close() {
  std::map<Name, std::unique_ptr<Extent>, std::less<>> all;
  {
    sync::LockGuard lock(mutex_);
    closed_ = true;
    bytes_ = 0;
    all.swap(extents_);
  }
  for (auto& [name, extent] : all) extent->regions.clear();
}

}  // namespace yonder::node
