#pragma once
// Two processes between which segments move: this one, the source, which also has the
// directory, and a forked one, the target.
//
//   auto pair = Pair::start({.provider = "shm"}, [](TargetSide& side) -> Result<void> {
//     YONDER_TRY(segment, side.agent().receive(deadline));
//     side.say(now);  …  return {};
//   });
//   (*pair)->agent().transfer(id);  (*pair)->hear();
//
// Concurrency: one thread, and no other one when it starts (it forks). Lifetime: the
// destructor waits for the target to end.

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "yonder/base/result.h"
#include "yonder/fabric/fabric.h"
#include "yonder/os/fd.h"
#include "yonder/os/process.h"
#include "yonder/os/steady_clock.h"
#include "yonder/rpc/server.h"
#include "yonder/segment/agent.h"
#include "yonder/segment/arena.h"
#include "yonder/segment/local_directory.h"
#include "yonder/segment/remote_directory.h"

namespace yonder::bench {

struct PairOptions {
  std::string provider = "shm";
  segment::ReceiveOptions receive;
  // At the target, the moment a segment is its own, on a thread of the agent.
  std::function<void(const segment::Segment&)> on_received;
  bool pin = false;  // source and target on a core of their own, as if on a host of their own
};

// Numbers and texts between the two.
class PairLine {
 public:
  explicit PairLine(os::Fd fd) : fd_(std::move(fd)) {}
  Result<void> say(double number);
  Result<double> hear();
  Result<void> say_text(const std::string& text);
  Result<std::string> hear_text();

 private:
  os::Fd fd_;
};

class TargetSide {
 public:
  TargetSide(segment::Agent& agent, fabric::Fabric& fabric, PairLine& line)
      : agent_(agent), fabric_(fabric), line_(line) {}
  segment::Agent& agent() { return agent_; }
  fabric::Fabric& fabric() { return fabric_; }
  PairLine& line() { return line_; }

 private:
  segment::Agent& agent_;
  fabric::Fabric& fabric_;
  PairLine& line_;
};

class Pair {
 public:
  using Body = std::function<Result<void>(TargetSide&)>;
  static Result<std::unique_ptr<Pair>> start(const PairOptions& options, const Body& target);
  ~Pair();

  segment::Agent& agent() { return *agent_; }
  segment::ProcessId target() const { return target_; }
  fabric::Fabric& fabric() { return *fabric_; }
  PairLine& line() { return *line_; }
  // The target has done its part. An error if it failed.
  Result<void> finish();

 private:
  Pair() = default;
  Result<void> open(const PairOptions& options);

  const os::SteadyClock clock_;
  std::optional<os::Child> child_;
  std::unique_ptr<PairLine> line_;
  std::unique_ptr<fabric::Fabric> fabric_;
  std::unique_ptr<segment::Arena> arena_;
  std::unique_ptr<segment::LocalDirectory> directory_;
  std::unique_ptr<rpc::Server> server_;
  std::unique_ptr<segment::Agent> agent_;
  segment::ProcessId target_;
};

}  // namespace yonder::bench
