#include "yonder/fabric/completion_queue.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace yonder::fabric {

void CompletionQueue::dispatch(const Completion& completion) {
  ++operations_completed_;
  reinterpret_cast<Operation*>(completion.user_data)->complete(completion);
}

std::size_t CompletionQueue::take_aside(std::span<Completion> out) {
  const std::size_t count = std::min(out.size(), aside_.size());
  std::copy_n(aside_.begin(), count, out.begin());
  aside_.erase(aside_.begin(), aside_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

void CompletionQueue::poll_operations() {
  // Not initialised: an idle poller comes here every few nanoseconds, and filling
  // 640 bytes would cost more than the poll. The bytes are Completions once
  // do_poll() has stored them (an implicit-lifetime type in a byte array).
  constexpr std::size_t kBatch = 16;
  alignas(Completion) std::array<std::byte, kBatch * sizeof(Completion)> memory;
  auto* const batch = reinterpret_cast<Completion*>(memory.data());
  const std::size_t count = do_poll({batch, kBatch});
  for (std::size_t i = 0; i < count; ++i) {
    if (has(batch[i].flags, RequestFlags::kOperation)) {
      dispatch(batch[i]);
    } else {
      aside_.push_back(batch[i]);
    }
  }
}

std::size_t CompletionQueue::poll(std::span<Completion> out) {
  if (out.empty()) {
    poll_operations();
    return 0;
  }
  std::size_t kept = aside_.empty() ? 0 : take_aside(out);
  if (kept == out.size()) return kept;
  const std::span<Completion> batch = out.subspan(kept);
  const std::size_t count = do_poll(batch);
  for (std::size_t i = 0; i < count; ++i) {
    // Copied first: an Operation may poll again and the caller's span is ours.
    const Completion completion = batch[i];
    if (has(completion.flags, RequestFlags::kOperation)) {
      dispatch(completion);
    } else {
      out[kept++] = completion;
    }
  }
  return kept;
}

}  // namespace yonder::fabric
