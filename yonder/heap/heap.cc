#include "yonder/heap/heap.h"

#include <utility>

#include "yonder/heap/internal/runtime.h"

namespace yonder::heap {

using internal::Runtime;

Heap::Heap(std::unique_ptr<Runtime> runtime) : runtime_(std::move(runtime)) {}
Heap::~Heap() = default;

Result<std::unique_ptr<Heap>> Heap::create(const HeapOptions& options) {
  YONDER_TRY(runtime, Runtime::create(options));
  return std::unique_ptr<Heap>(new Heap(std::move(runtime)));
}

Result<void> Heap::set_local(Bytes local) { return runtime_->set_local(local); }
Bytes Heap::local() const { return runtime_->local(); }
HeapStats Heap::stats() const { return runtime_->stats(); }
std::size_t Heap::evacuate() { return runtime_->evacuate_now(); }

void Heap::leave_thread() {
  if (internal::t_thread != nullptr && internal::g_runtime != nullptr)
    internal::g_runtime->leave(*internal::t_thread);
}

}  // namespace yonder::heap
