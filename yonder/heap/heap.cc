#include "yonder/heap/heap.h"

#include <utility>

#include "yonder/heap/internal/huge_space.h"
#include "yonder/heap/internal/runtime.h"

namespace yonder::heap {

using internal::HugeSpace;
using internal::Runtime;

Heap::Heap(std::unique_ptr<Runtime> runtime, std::unique_ptr<HugeSpace> huge)
    : runtime_(std::move(runtime)), huge_(std::move(huge)) {
  internal::g_huge = huge_.get();
}
Heap::~Heap() {
  huge_.reset();
  internal::g_huge = nullptr;
}

Result<std::unique_ptr<Heap>> Heap::create(const HeapOptions& options) {
  YONDER_TRY(runtime, Runtime::create(options));
  std::unique_ptr<HugeSpace> huge;
  if (options.huge.count() != 0) {
    YONDER_TRY(made, HugeSpace::create(options));
    huge = std::move(made);
  }
  return std::unique_ptr<Heap>(new Heap(std::move(runtime), std::move(huge)));
}

Result<void> Heap::set_huge_local(Bytes local) {
  if (huge_ == nullptr) return fail(ErrorCode::kNotFound, "far heap: it has no memory for huge objects");
  return huge_->pages().set_budget(local);
}
PagedSpaceStats Heap::huge_stats() const { return huge_ ? huge_->pages().stats() : PagedSpaceStats{}; }

Result<void> Heap::set_local(Bytes local) { return runtime_->set_local(local); }
Bytes Heap::local() const { return runtime_->local(); }
HeapStats Heap::stats() const { return runtime_->stats(); }
std::size_t Heap::evacuate() { return runtime_->evacuate_now(); }

void Heap::leave_thread() {
  if (internal::t_thread != nullptr && internal::g_runtime != nullptr)
    internal::g_runtime->leave(*internal::t_thread);
}

}  // namespace yonder::heap
