#pragma once
// StallWatch: a thread that polls a StallDetector, for programs that have no loop
// of their own that is sure not to stall.
//
// It sleeps between polls and costs nothing measurable at an interval of a second.
//
// Concurrency: start and destroy from any thread; the detector's callback runs in
// the watch's thread. Nobody else may poll the detector meanwhile.
// Lifetime: detector > watch; the destructor ends the thread.

#include <memory>

#include "yonder/base/result.h"
#include "yonder/base/time.h"
#include "yonder/telemetry/stall_detector.h"

namespace yonder::telemetry {

class StallWatch {
 public:
  // Errors: kResourceExhausted (descriptors or threads).
  static Result<StallWatch> start(StallDetector& detector, Duration interval);

  StallWatch(StallWatch&&) noexcept;
  StallWatch& operator=(StallWatch&&) = delete;
  ~StallWatch();

 private:
  class Thread;
  explicit StallWatch(std::unique_ptr<Thread> thread);
  std::unique_ptr<Thread> thread_;
};

}  // namespace yonder::telemetry
