#include "yonder/node/block_views.h"

#include <algorithm>

#include "yonder/base/check.h"

namespace yonder::node {

Result<std::unique_ptr<BlockViews>> BlockViews::create(const FrameStore& store, const SizeClasses& classes,
                                                       std::uint64_t ids, ViewObserver* observer) {
  std::uint64_t stride = kUnitBytes;
  for (std::size_t i = 0; i < classes.count(); ++i) {
    stride = std::max<std::uint64_t>(stride, classes[i].frame_bytes);
  }
  YONDER_TRY(views, os::Mapping::anonymous({.bytes = ids * stride, .protection = os::Protection::kRead}));
  return std::unique_ptr<BlockViews>(new BlockViews(store, classes, stride, std::move(views), observer));
}

std::uint32_t BlockViews::default_limit() {
  // A view among unused addresses splits them: two mappings more. What superblocks, heaps
  // and threads of the process need stays well below the rest.
  constexpr std::uint64_t kMappingsPerView = 2;
  constexpr std::uint64_t kOthers = 8192;
  constexpr std::uint64_t kFewest = 1024;
  const std::uint64_t all = os::max_mappings();
  const std::uint64_t ours = all > kOthers ? (all - kOthers) / kMappingsPerView : 0;
  return static_cast<std::uint32_t>(std::clamp(ours, kFewest, std::uint64_t{1} << kBlockIdBits));
}

BlockView BlockViews::view_of(BlockId block, FrameId frame, std::uint8_t size_class) const {
  return {.block = block,
          .memory = views_.bytes(block.value() * stride_, classes_[size_class].frame_bytes),
          .file = store_.file_place(frame)};
}

Result<BlockView> BlockViews::map(BlockId block, FrameId frame, std::uint8_t size_class) {
  const BlockView view = view_of(block, frame, size_class);
  if (!views_.remap_file(block.value() * stride_, *view.file.fd,
                         {.offset = view.file.offset, .bytes = view.memory.size()})) {
    return fail(ErrorCode::kResourceExhausted, "map a block at its address", block.value());
  }
  return view;
}

Result<void> BlockViews::place(BlockId block, FrameId frame, std::uint8_t size_class) {
  if (size_class == kSpanClass) return {};
  YONDER_TRY(view, map(block, frame, size_class));
  return observer_ == nullptr ? Result<void>() : observer_->placed(view);
}

Result<void> BlockViews::move(BlockId block, FrameId frame, std::uint8_t size_class) {
  YONDER_DCHECK(size_class != kSpanClass, "spans do not move");
  YONDER_TRY(view, map(block, frame, size_class));
  return observer_ == nullptr ? Result<void>() : observer_->moved(view);
}

void BlockViews::remove(BlockId block, std::uint8_t size_class) {
  if (size_class == kSpanClass) return;
  if (observer_ != nullptr) observer_->removed(block);
  const std::uint64_t bytes = classes_[size_class].frame_bytes;
  const std::uint64_t offset = block.value() * stride_;
  // Without a mapping for that, the view keeps its last frame until the id is used
  // again: what lies there has other identities, so nobody is misled.
  if (views_.remap_anonymous(offset, bytes)) (void)views_.protect(offset, bytes, os::Protection::kRead);
}

}  // namespace yonder::node
