#include "yonder/telemetry/stall_watch.h"

#include <system_error>
#include <thread>

#include "yonder/os/eventfd.h"
#include "yonder/os/steady_clock.h"

namespace yonder::telemetry {

class StallWatch::Thread {
 public:
  Thread(StallDetector& detector, Duration interval, os::EventFd stop)
      : detector_(detector), interval_(interval), stop_(std::move(stop)), thread_([this] { run(); }) {}
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;
  ~Thread() {
    stop_.ring();
    thread_.join();
  }

 private:
  void run() {
    const os::SteadyClock clock;
    // A wait that ends without a ring is an interval that went by.
    while (!stop_.wait(Deadline::after(clock, interval_))) detector_.poll();
  }

  StallDetector& detector_;
  const Duration interval_;
  const os::EventFd stop_;
  std::thread thread_;  // Last: it uses all of the above.
};

Result<StallWatch> StallWatch::start(StallDetector& detector, Duration interval) {
  YONDER_TRY(stop, os::EventFd::create());
  try {
    return StallWatch(std::make_unique<Thread>(detector, interval, std::move(stop)));
  } catch (const std::system_error& error) {  // std::thread knows no other way to say it.
    return fail(ErrorCode::kResourceExhausted, "start a thread", error.code().value());
  }
}

StallWatch::StallWatch(std::unique_ptr<Thread> thread) : thread_(std::move(thread)) {}
StallWatch::StallWatch(StallWatch&&) noexcept = default;
StallWatch::~StallWatch() = default;

}  // namespace yonder::telemetry
