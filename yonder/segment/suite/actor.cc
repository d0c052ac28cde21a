#include "yonder/segment/suite/actor.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <memory>
#include <set>
#include <thread>
#include <unordered_map>
#include <vector>

#include "yonder/base/check.h"
#include "yonder/base/prng.h"
#include "yonder/fabric/open/open.h"
#include "yonder/os/steady_clock.h"
#include "yonder/os/wait.h"
#include "yonder/segment/agent.h"
#include "yonder/segment/recovery.h"
#include "yonder/segment/remote_directory.h"
#include "yonder/segment/suite/late_commits.h"

// A touch is served inside a signal handler that interrupted nothing but the touch itself:
// what a handler of an asynchronous signal must not do (a socket's buffer may grow, which
// allocates) is safe there, and ThreadSanitizer cannot tell the two apart.
extern "C" const char* __tsan_default_options() { return "report_signal_unsafe=0"; }  // NOLINT

namespace yonder::segment::suite {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kSparseStep = 64;

struct Packet {
  What what;
  std::uint64_t a, b, c;
  std::array<char, 256> text;
};
struct Answer {
  ErrorCode code;
  std::uint64_t value;
};

// The word at `offset` of a segment with this seed.
std::uint64_t word_of(std::uint64_t seed, std::uint64_t offset) {
  std::uint64_t state = seed ^ (offset * 0x9e3779b97f4a7c15);
  return splitmix64(state);
}

// What runs in the forked process.
class Stage {
 public:
  explicit Stage(const ActorOptions& options) : options_(options) {}

  Result<std::uint64_t> perform(const Packet& packet) {
    const SegmentId segment(packet.a);
    switch (packet.what) {
      case What::kStart:
        return start(packet.text.data());
      case What::kAllocate:
        return allocate(packet.a, packet.b, 1);
      case What::kAllocateSparse:
        return allocate(packet.a, packet.b, kSparseStep);
      case What::kDeallocate:
        return done(agent_->deallocate(segment));
      case What::kConnect:
        return done(agent_->connect(segment, ProcessId(packet.b), {.release_early = packet.c == 1}));
      case What::kConnectKept:
        return done(
            agent_->connect(segment, ProcessId(packet.b), {.keep_until_complete = ProcessId(packet.c)}));
      case What::kCancel:
        return done(agent_->cancel(segment));
      case What::kTransfer:
        return transfer(segment);
      case What::kTransferUnready: {
        YONDER_TRY(transferred,
                   agent_->transfer(segment, {}, [] { return fail(ErrorCode::kCancelled, "not ready"); }));
        return transferred.epoch.value();
      }
      case What::kTransferSlowly:
        return transfer_under_writes(segment);
      case What::kReceive: {
        YONDER_TRY(got, agent_->receive(Deadline::after(clock_, std::chrono::milliseconds(packet.a))));
        memory_[got.id] = got.memory;
        return got.id.value();
      }
      case What::kCheck:
        return count_wrong(segment, packet.b, 1);
      case What::kCheckSparse:
        return count_wrong(segment, packet.b, kSparseStep);
      case What::kCheckByMany:
        return count_wrong_by_many(segment, packet.b);
      case What::kCheckAttempt: {
        std::uint64_t wrong = 0;
        YONDER_TRY_VOID(attempt([&] { wrong = count_wrong(segment, packet.b, 1); }));
        return wrong;
      }
      case What::kFill:
        fill(memory_.at(segment), packet.b, 1);
        return 0;
      case What::kReadWord:
        return *reinterpret_cast<volatile std::uint64_t*>(memory_.at(segment).data() + packet.b);
      case What::kTouchNowAndThen:
        touch_for(memory_.at(segment), std::chrono::milliseconds(packet.b));
        return 0;
      case What::kPull:
        return done(agent_->pull(segment, {packet.b, packet.c}));
      case What::kClose:
        return done(agent_->close(segment));
      case What::kMissing:
        return missing(segment);
      case What::kLeft:
        return count_leaving();
      case What::kResident:
        return resident();
      case What::kTouchFenced:
        *reinterpret_cast<volatile std::uint64_t*>(packet.a) = 1;
        return 0;
      case What::kAddress:
        return reinterpret_cast<std::uintptr_t>(memory_.at(segment).data());
      case What::kDecline:
        declines_ = packet.a == 1;
        return 0;
    }
    return fail(ErrorCode::kInvalidArgument, "an actor's command");
  }

 private:
  static Result<std::uint64_t> done(Result<void> result) {
    if (!result) return std::unexpected(result.error());
    return 0;
  }

  Result<std::uint64_t> start(const std::string& directory) {
    YONDER_TRY(fabric, fabric::open(options_.provider));
    fabric_ = std::move(fabric);
    YONDER_TRY(arena, Arena::reserve({}));
    arena_ = std::move(arena);
    YONDER_TRY(remote, RemoteDirectory::connect(*fabric_, directory));
    directory_ = std::move(remote);
    AgentOptions agent{.address = options_.provider, .data_address = options_.provider};
    agent.consent = [this](const Offered&) { return !declines_; };
    agent.receive.prefetch = options_.prefetch;
    agent.receive.pull_on_touch = options_.pull_on_touch;
    agent.receive.source_timeout = std::chrono::milliseconds(options_.source_timeout_ms);
    agent.tick = 20ms;
    late_ = std::make_unique<LateCommits>(*directory_, std::chrono::milliseconds(options_.commit_delay_ms));
    YONDER_TRY(made, Agent::create(*fabric_, *arena_, *late_, std::move(agent)));
    agent_ = std::move(made);
    return agent_->id().value();
  }

  Result<std::uint64_t> transfer(SegmentId segment) {
    YONDER_TRY(transferred, agent_->transfer(segment));
    return transferred.epoch.value();
  }

  Result<std::uint64_t> allocate(std::uint64_t bytes, std::uint64_t seed, std::size_t step) {
    YONDER_TRY(segment, agent_->allocate(Bytes(bytes)));
    memory_[segment.id] = segment.memory;
    fill(segment.memory, seed, step);
    return segment.id.value();
  }

  static void fill(std::span<std::byte> memory, std::uint64_t seed, std::size_t step) {
    for (std::size_t page = 0; page < memory.size() / kPage; page += step) {
      for (std::size_t offset = page * kPage; offset < (page + 1) * kPage; offset += 8) {
        const std::uint64_t word = word_of(seed, offset);
        std::memcpy(memory.data() + offset, &word, 8);
      }
    }
  }

  // A page every 100 us or so, in random order.
  static void touch_for(std::span<std::byte> memory, Duration time) {
    Prng prng(1);
    for (const Instant end = os::SteadyClock::read() + time; os::SteadyClock::read() < end;) {
      (void)*const_cast<volatile std::byte*>(&memory[prng.below(memory.size())]);
      std::this_thread::sleep_for(100us);
    }
  }

  // In random order: pages are pulled as they are touched.
  std::uint64_t count_wrong(SegmentId segment, std::uint64_t seed, std::size_t step) {
    return count_wrong_in_order(memory_.at(segment), seed, step, order_);
  }

  std::uint64_t count_wrong_by_many(SegmentId segment, std::uint64_t seed) {
    const std::span<std::byte> memory = memory_.at(segment);
    std::atomic<std::uint64_t> wrong{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        std::vector<std::size_t> order(static_cast<std::size_t>(i));  // Another order for each.
        wrong += count_wrong_in_order(memory, seed, 1, order);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return wrong;
  }

  static std::uint64_t count_wrong_in_order(std::span<std::byte> memory, std::uint64_t seed, std::size_t step,
                                            std::vector<std::size_t>& order) {
    Prng prng(seed + 1 + order.size());
    order.resize(memory.size() / kPage);
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[prng.below(i)]);
    std::uint64_t wrong = 0;
    for (const std::size_t page : order) {
      for (std::size_t offset = page * kPage; offset < (page + 1) * kPage; offset += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, memory.data() + offset, 8);
        wrong += word != (page % step == 0 ? word_of(seed, offset) : 0) ? 1 : 0;
      }
    }
    return wrong;
  }

  // Stores increasing numbers until the memory is taken away, and says which was the
  // last that went through.
  Result<std::uint64_t> transfer_under_writes(SegmentId segment) {
    auto* word = reinterpret_cast<std::uint64_t*>(memory_.at(segment).data());
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> last{0};
    std::thread writer([&] {
      // The writer stops by its own flag, as an application does; the fence is behind it.
      for (std::uint64_t i = 1; !stop.load(std::memory_order_acquire); ++i) {
        *const_cast<volatile std::uint64_t*>(word) = i;
        last.store(i, std::memory_order_release);
      }
    });
    std::this_thread::sleep_for(5ms);
    const auto last_use = [&]() -> Result<void> {
      stop.store(true, std::memory_order_release);
      writer.join();
      return {};
    };
    const Result<Transferred> transferred = agent_->transfer(segment, {}, last_use);
    if (writer.joinable()) (void)last_use();
    if (!transferred) return std::unexpected(transferred.error());
    return last.load(std::memory_order_acquire);
  }

  Result<std::uint64_t> missing(SegmentId segment) {
    YONDER_TRY(ranges, agent_->missing(segment));
    std::uint64_t bytes = 0;
    for (const ByteRange& range : ranges) bytes += range.length;
    return bytes;
  }

  std::uint64_t count_leaving() const {
    std::uint64_t count = 0;
    for (const Migration& migration : agent_->migrations()) {
      count +=
          migration.state == MigrationState::kLeaving || migration.state == MigrationState::kInDoubt ? 1 : 0;
    }
    return count;
  }

  // What the segments' files of this process occupy.
  static std::uint64_t resident() {
    std::uint64_t bytes = 0;
    std::set<ino_t> counted;  // A fabric has a descriptor of its own.
    for (int fd = 0; fd < 1024; ++fd) {
      std::array<char, 64> target{};
      const std::string link = "/proc/self/fd/" + std::to_string(fd);
      if (::readlink(link.c_str(), target.data(), target.size() - 1) <= 0) continue;
      if (std::string_view(target.data()).find("yonder-segment") == std::string_view::npos) continue;
      struct stat status{};
      // By its name: the descriptor may be closed by another thread.
      if (::stat(link.c_str(), &status) == 0 && counted.insert(status.st_ino).second)
        bytes += static_cast<std::uint64_t>(status.st_blocks) * 512;
    }
    return bytes;
  }

  const ActorOptions options_;
  const os::SteadyClock clock_;
  std::atomic<bool> declines_{false};
  std::unique_ptr<fabric::Fabric> fabric_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<RemoteDirectory> directory_;
  std::unique_ptr<LateCommits> late_;
  std::unique_ptr<Agent> agent_;
  std::unordered_map<SegmentId, std::span<std::byte>> memory_;
  std::vector<std::size_t> order_;
};

int play(int line, const ActorOptions& options) {
  Stage stage(options);
  Packet packet;
  while (::recv(line, &packet, sizeof packet, MSG_WAITALL) == ssize_t{sizeof packet}) {
    const Result<std::uint64_t> result = stage.perform(packet);
    if (!result) ::dprintf(STDERR_FILENO, "actor: %s\n", result.error().to_string().c_str());
    const Answer answer{.code = result ? ErrorCode::kOk : result.error().code(), .value = result.value_or(0)};
    if (::send(line, &answer, sizeof answer, MSG_NOSIGNAL) != ssize_t{sizeof answer}) break;
  }
  return 0;
}

}  // namespace

Actor::Actor(const ActorOptions& options) {
  std::array<int, 2> ends{};
  YONDER_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0, "a line to an actor");
  line_.reset(ends[0]);
  const os::Fd theirs(ends[1]);
  errors_.reset(::memfd_create("actor-errors", MFD_CLOEXEC));
  child_ = std::make_unique<os::Child>(os::Child::fork([&] {
                                         line_.reset();
                                         ::dup2(errors_.get(), STDERR_FILENO);
                                         return play(theirs.get(), options);
                                       }).value());
}

Actor::~Actor() { end(); }

std::string Actor::end() {
  // It sees the end of its line and ends. Other actors have copies of our end.
  ::shutdown(line_.get(), SHUT_RDWR);
  const Result<os::ExitStatus> status = child_->wait(Deadline::at(os::SteadyClock::read() + 20s));
  if (!status) child_->kill(SIGKILL).value();
  return seen_dead_ ? "" : errors();
}

Result<void> Actor::start(const std::string& directory) {
  YONDER_TRY(id, ask({.what = What::kStart, .text = directory}));
  id_ = ProcessId(id);
  return {};
}

Result<void> Actor::tell(const Command& command) {
  Packet packet{.what = command.what, .a = command.a, .b = command.b, .c = command.c, .text = {}};
  command.text.copy(packet.text.data(), packet.text.size() - 1);
  if (::send(line_.get(), &packet, sizeof packet, MSG_NOSIGNAL) != ssize_t{sizeof packet})
    return fail(ErrorCode::kConnectionLost, "tell an actor");
  return {};
}

Result<std::uint64_t> Actor::answer() {
  YONDER_TRY_VOID(
      os::wait_ready(line_.get(), os::Ready::kReadable, Deadline::at(os::SteadyClock::read() + 60s)));
  Answer answer{};
  if (::recv(line_.get(), &answer, sizeof answer, MSG_WAITALL) != ssize_t{sizeof answer})
    return fail(ErrorCode::kConnectionLost, "an actor died");
  if (answer.code != ErrorCode::kOk) return fail(answer.code, "an actor's answer");
  return answer.value;
}

Result<std::uint64_t> Actor::ask(const Command& command) {
  YONDER_TRY_VOID(tell(command));
  return answer();
}

void Actor::kill() {
  child_->kill(SIGKILL).value();
  wait();
}

os::ExitStatus Actor::wait() {
  seen_dead_ = true;
  return child_->wait(Deadline::at(os::SteadyClock::read() + 30s)).value();
}

std::string Actor::errors() const {
  std::string text(64 * 1024, '\0');
  const ssize_t count = ::pread(errors_.get(), text.data(), text.size(), 0);
  text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return text;
}

}  // namespace yonder::segment::suite
