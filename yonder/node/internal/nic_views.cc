#include "yonder/node/internal/nic_views.h"

#include <utility>

#include "yonder/os/memfd.h"

namespace yonder::node::internal {
namespace {

using fabric::Backing;
using fabric::Rights;

// Devices say that they page on demand, but not that they take advice about it.
Result<bool> can_prefetch(fabric::Fabric& fabric) {
  YONDER_TRY(page, os::Mapping::anonymous({.bytes = os::kPageBytes}));
  YONDER_TRY(region, fabric.register_memory(
                         {.memory = page.bytes(), .rights = Rights::kRead, .on_demand_paging = true}));
  return region.prefetch(0, os::kPageBytes).has_value();
}

Backing backing_of(const BlockView& view) { return {.fd = view.file.fd->get(), .offset = view.file.offset}; }

}  // namespace

Result<NicViews::How> NicViews::choose(fabric::Fabric& fabric, NicMapping wanted) {
  const fabric::Capabilities& can = fabric.capabilities();
  if (can.provider == "shm") {
    return fail(ErrorCode::kUnsupported, "remap=mmap: readers over shm map the memory themselves: use table");
  }
  if (!can.target_cpu_idle) return How::kProcessor;
  const bool wants_odp = wanted == NicMapping::kOdpPrefetch || wanted == NicMapping::kOdp;
  if (wants_odp && !can.on_demand_paging) {
    return fail(ErrorCode::kUnsupported, "mapping: the device has no on-demand paging");
  }
  if (wanted == NicMapping::kRereg || !can.on_demand_paging) {
    if (can.rebind) return How::kRereg;
    return fail(ErrorCode::kUnsupported, "mapping: the device cannot register memory anew");
  }
  if (wanted == NicMapping::kOdp) return How::kOdp;
  YONDER_TRY(prefetches, can_prefetch(fabric));
  if (prefetches) return How::kOdpPrefetch;
  if (wanted == NicMapping::kAuto) return How::kOdp;
  return fail(ErrorCode::kUnsupported, "mapping: the device does not prefetch");
}

Result<std::unique_ptr<NicViews>> NicViews::create(fabric::Fabric& fabric, NicMapping wanted) {
  YONDER_TRY(how, choose(fabric, wanted));
  return std::unique_ptr<NicViews>(new NicViews(fabric, how));
}

Result<void> NicViews::open(const BlockViews& views, const BlockTable& table) {
  views_ = &views;
  return how_ == How::kRereg ? open_keys(table) : open_arena();
}

Result<void> NicViews::open_arena() {
  const bool on_demand = how_ != How::kProcessor;
  YONDER_TRY(region,
             fabric_.register_memory(
                 {.memory = views_->memory(), .rights = Rights::kRead, .on_demand_paging = on_demand}));
  region_ = std::move(region);
  return {};
}

Result<void> NicViews::open_keys(const BlockTable& table) {
  const std::uint64_t ids = views_->memory().size() / views_->stride();
  YONDER_TRY(file, os::Memfd::create({.name = "yonder-view-keys", .size = ids * sizeof(std::uint64_t)}));
  YONDER_TRY(keys, os::Mapping::of_file(file.fd(),
                                        {.bytes = file.size(), .protection = os::Protection::kReadWrite}));
  YONDER_TRY(region, fabric_.register_memory({.memory = keys.bytes(),
                                              .rights = Rights::kRead,
                                              .backing = Backing{.fd = file.fd().get()}}));
  keys_ = std::move(keys);
  region_ = std::move(region);
  blocks_.resize(ids);
  for (std::uint32_t id = 0; id < table.capacity(); ++id) {
    const BlockEntry entry = table.lookup(BlockId(id));
    if (!entry.valid() || entry.size_class() == kSpanClass) continue;
    YONDER_TRY_VOID(placed(views_->view_of(BlockId(id), entry.frame(), entry.size_class())));
  }
  return {};
}

void NicViews::close() {
  // The places stay: blocks may go after their port.
  for (fabric::Region& block : blocks_) block = {};
  region_ = {};
}

protocol::Views NicViews::describe() const {
  return {.kind = how_ == How::kRereg ? protocol::ViewKind::kKeys : protocol::ViewKind::kArena,
          .stride = views_->stride(),
          .region = region_.token()};
}

std::uint64_t NicViews::offset_of(const BlockView& view) const {
  return static_cast<std::uint64_t>(view.memory.data() - views_->memory().data());
}

void NicViews::store_key(BlockId block, fabric::RegionKey key) {
  const std::atomic_ref<std::uint64_t> word(reinterpret_cast<std::uint64_t*>(keys_.data())[block.value()]);
  // release: keeps the order for readers on this machine; others are ordered by the NIC.
  word.store(key.value, std::memory_order_release);
}

Result<void> NicViews::placed(const BlockView& view) {
  if (views_ == nullptr) return {};
  if (how_ == How::kRereg) {
    YONDER_TRY(region, fabric_.register_memory(
                           {.memory = view.memory, .rights = Rights::kRead, .backing = backing_of(view)}));
    blocks_[view.block.value()] = std::move(region);
    store_key(view.block, blocks_[view.block.value()].token().key);
  } else if (how_ != How::kProcessor) {
    // No prefetch: it would make the system provide all pages of a frame that has no object.
    region_.pages_remapped(offset_of(view), view.memory.size());
  }
  return {};
}

Result<void> NicViews::moved(const BlockView& view) {
  if (views_ == nullptr || how_ == How::kProcessor) return {};
  if (how_ == How::kRereg) return blocks_[view.block.value()].rebind(view.memory, backing_of(view));
  const std::uint64_t offset = offset_of(view);
  region_.pages_remapped(offset, view.memory.size());
  // Advice: without it the next reader waits for a fault, and all is well.
  if (how_ == How::kOdpPrefetch) (void)region_.prefetch(offset, view.memory.size());
  return {};
}

void NicViews::removed(BlockId block) {
  if (how_ != How::kRereg || block.value() >= blocks_.size()) return;
  store_key(block, {});
  blocks_[block.value()] = {};
}

// ---------------------------------------------------------------- all ports

Result<void> AllNicViews::placed(const BlockView& view) {
  for (NicViews* one : all_) YONDER_TRY_VOID(one->placed(view));
  return {};
}

Result<void> AllNicViews::moved(const BlockView& view) {
  for (NicViews* one : all_) YONDER_TRY_VOID(one->moved(view));
  return {};
}

void AllNicViews::removed(BlockId block) {
  for (NicViews* one : all_) one->removed(block);
}

}  // namespace yonder::node::internal
