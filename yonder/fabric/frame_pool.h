#pragma once
// Memory for coroutine frames, so that starting a task allocates nothing in the
// steady state.
//
// Frames are rounded up to 64-byte classes up to 2 KiB; each thread keeps up to
// 256 free frames per class. Larger frames and the first use of a class go to
// operator new.
//
// Concurrency: any thread; a frame may be released on another thread than it was
// allocated on (it then joins that thread's list).

#include <cstddef>

namespace yonder::fabric {

class FramePool {
 public:
  static void* allocate(std::size_t bytes);
  static void release(void* frame, std::size_t bytes) noexcept;
};

}  // namespace yonder::fabric
