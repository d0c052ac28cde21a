#include "yonder/fabric/shm/internal/board.h"

#include <algorithm>

namespace yonder::fabric::shm {

Result<Board> Board::create() {
  YONDER_TRY(file, os::Memfd::create({.name = "yonder-shm-board", .size = kBoardBytes}));
  YONDER_TRY_VOID(file.seal(os::kSealShrink | os::kSealGrow | os::kSealSeal));
  YONDER_TRY(mapping, os::Mapping::of_file(file.fd(),
                                           {.bytes = kBoardBytes, .protection = os::Protection::kReadWrite}));
  return Board(std::move(file), std::move(mapping));
}

Result<std::uint32_t> Board::take() {
  if (!free_.empty()) {
    const std::uint32_t index = free_.back();
    free_.pop_back();
    return index;
  }
  if (next_ == kBoardEntries)
    return fail(ErrorCode::kResourceExhausted, "attach connection: 4,096 per queue", kBoardEntries);
  const std::uint32_t index = next_++;
  used_->store(std::min(next_, kBoardLines), std::memory_order_relaxed);
  return index;
}

void Board::give(std::uint32_t index) { free_.push_back(index); }

}  // namespace yonder::fabric::shm
