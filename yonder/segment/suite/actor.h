#pragma once
// Actor: a process of its own with an arena and an agent, that does what a test asks.
//
//   Actor source("shm:"), target("shm:");     // forks; before the test makes threads
//   Directory for both, then source.start(address) …
//   const std::uint64_t id = source.ask({.what = What::kAllocate, .a = 1 << 20, .b = seed}).value();
//
// Segments move between processes, and an address exists once per process: there is no
// way to test them in one. An actor executes one command at a time and answers it; a
// test kills it, for real, with kill().
//
// Concurrency: the test's thread. Lifetime: the destructor ends the process.

#include <cstdint>
#include <memory>
#include <string>

#include "yonder/base/result.h"
#include "yonder/os/fd.h"
#include "yonder/os/process.h"
#include "yonder/segment/ids.h"

namespace yonder::segment::suite {

enum class What : std::uint32_t {
  kStart,            // text: the directory's address → process id
  kAllocate,         // a: bytes, b: seed → segment id; filled with the seed's pattern
  kAllocateSparse,   // the same, but only every 64th page has data
  kDeallocate,       // a: segment
  kConnect,          // a: segment, b: target, c: 1 for release_early
  kConnectKept,      // a: segment, b: target, c: who keeps a copy
  kCancel,           // a: segment
  kTransfer,         // a: segment
  kTransferSlowly,   // as kTransfer, with a writer that stores until the last moment; → its last number
  kTransferUnready,  // as kTransfer, but the application cannot end its use of the segment
  kReceive,          // a: milliseconds → segment id
  kCheck,            // a: segment, b: seed → wrong words, all pages touched in random order
  kCheckByMany,      // the same by four threads at once, each in another order
  kCheckAttempt,     // the same inside attempt()
  kCheckSparse,      // as kCheck for kAllocateSparse; holes must be zero
  kFill,             // a: segment, b: seed
  kReadWord,         // a: segment, b: offset → word
  kTouchNowAndThen,  // a: segment, b: milliseconds
  kPull,             // a: segment, b: offset, c: length
  kClose,            // a: segment
  kMissing,          // a: segment → bytes
  kLeft,             // → segments that are leaving or in doubt here
  kResident,         // → bytes of memory that this process's segments have (all of its memfds)
  kTouchFenced,      // a: segment address as integer: never returns
  kAddress,          // a: segment → its address
  kDecline,          // a: 1: refuses offers from now on
};

struct Command {
  What what = What::kStart;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  std::uint64_t c = 0;
  std::string text = {};
};

struct ActorOptions {
  std::string provider = "shm:";  // where its agent listens, too
  bool prefetch = true;
  bool pull_on_touch = true;
  std::uint64_t source_timeout_ms = 2000;
  std::uint64_t commit_delay_ms = 0;  // until it hears that a commit was made
};

class Actor {
 public:
  explicit Actor(const ActorOptions& options);
  ~Actor();

  // kStart; keeps the process id.
  Result<void> start(const std::string& directory);
  ProcessId id() const { return id_; }
  // The answer, within 60 s. kConnectionLost if the process died.
  Result<std::uint64_t> ask(const Command& command);
  // Sends a command whose answer the caller fetches later.
  Result<void> tell(const Command& command);
  Result<std::uint64_t> answer();
  // SIGKILL, and its end awaited.
  void kill();
  // How it ended. Waits.
  os::ExitStatus wait();
  // Lets it end by itself; what it wrote to stderr in its life, or nothing if the test has
  // watched it die.
  std::string end();
  // What it wrote to stderr so far.
  std::string errors() const;

 private:
  os::Fd line_;
  os::Fd errors_;
  std::unique_ptr<os::Child> child_;
  ProcessId id_;
  bool seen_dead_ = false;
};

}  // namespace yonder::segment::suite
