#include "yonder/node/block_views.h"

#include <algorithm>

#include "yonder/base/check.h"

namespace yonder::node {

Result<std::unique_ptr<BlockViews>> BlockViews::create(const FrameStore& store, const SizeClasses& classes,
                                                       std::uint64_t ids) {
  std::uint64_t stride = kUnitBytes;
  for (std::size_t i = 0; i < classes.count(); ++i) {
    stride = std::max<std::uint64_t>(stride, classes[i].frame_bytes);
  }
  YONDER_TRY(views, os::Mapping::anonymous({.bytes = ids * stride, .protection = os::Protection::kRead}));
  return std::unique_ptr<BlockViews>(new BlockViews(store, classes, stride, std::move(views)));
}

Result<void> BlockViews::place(BlockId block, FrameId frame, std::uint8_t size_class) {
  if (size_class == kSpanClass) return {};
  const FrameStore::FilePlace file = store_.file_place(frame);
  const auto mapped = views_.remap_file(block.value() * stride_, *file.fd,
                                        {.offset = file.offset, .bytes = classes_[size_class].frame_bytes});
  if (mapped) return {};
  return fail(ErrorCode::kResourceExhausted, "map a block at its address", block.value());
}

void BlockViews::remove(BlockId block, std::uint8_t size_class) {
  if (size_class == kSpanClass) return;
  const std::uint64_t bytes = classes_[size_class].frame_bytes;
  const std::uint64_t offset = block.value() * stride_;
  // Without the memory for that, the view keeps its last frame until the id is used
  // again: what lies there has other identities, so nobody is misled.
  if (views_.remap_anonymous(offset, bytes)) (void)views_.protect(offset, bytes, os::Protection::kRead);
}

}  // namespace yonder::node
