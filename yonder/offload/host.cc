#include "yonder/offload/host.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <deque>
#include <list>
#include <optional>
#include <utility>

#include "yonder/base/check.h"
#include "yonder/offload/internal/outcomes.h"
#include "yonder/offload/internal/worker_process.h"
#include "yonder/os/epoll.h"
#include "yonder/os/eventfd.h"
#include "yonder/os/mapping.h"
#include "yonder/os/steady_clock.h"
#include "yonder/sync/mutex.h"

namespace yonder::offload {

using internal::Finished;
using internal::Job;
using internal::Place;
using internal::WorkerProcess;
using State = WorkerProcess::State;

namespace {

// While there are workers the watcher looks round so often, so that a call whose deadline is
// later than the next look need not wake it.
constexpr Duration kLook = std::chrono::seconds(1);

Instant now() { return os::SteadyClock::read(); }

Result<std::string> default_program() {
  std::array<char, PATH_MAX> path{};
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  if (length <= 0) return fail_errno("readlink(/proc/self/exe)");
  const std::string self(path.data(), static_cast<std::size_t>(length));
  return self.substr(0, self.rfind('/') + 1) + "yonder-offload";
}

Result<os::Fd> open_library(const os::Fd& directory, const std::string& file) {
  os::Fd library(::openat(directory.get(), file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat about{};
  if (!library.valid() || ::fstat(library.get(), &about) != 0 || !S_ISREG(about.st_mode))
    return fail(ErrorCode::kUnknownFunction, "offload: no library of this name");
  return library;
}

}  // namespace

// The watcher's loop, and what it shares with those who call.
class Host::Parts {
 public:
  Parts(const HostOptions& options, os::Fd directory, os::Epoll epoll, os::EventFd wakes)
      : options_(options),
        directory_(std::move(directory)),
        epoll_(std::move(epoll)),
        wakes_(std::move(wakes)) {}

  void submit(Job job);
  void forget(std::string_view memory);
  void begin_stop();
  void run();
  HostStats stats() const {
    sync::LockGuard lock(mutex_);
    HostStats out = stats_;
    out.workers = workers_.size();
    return out;
  }
  const HostOptions& options() const { return options_; }

 private:
  using Workers = std::list<std::unique_ptr<WorkerProcess>>;
  using Finishes = std::vector<Finished>;

  WorkerProcess* find_idle(const Place& place) YONDER_REQUIRES(mutex_);
  bool is_starting(const Place& place) const YONDER_REQUIRES(mutex_);
  Deadline next_look() const YONDER_REQUIRES(mutex_);
  void wake_for(Deadline deadline) YONDER_REQUIRES(mutex_);
  void finish(Job job, const Error& error, Finishes& out) YONDER_REQUIRES(mutex_);
  // Takes the worker out, ends it, and answers its job with what came of it.
  void bury(Workers::iterator worker, std::optional<Error> why, Finishes& out) YONDER_REQUIRES(mutex_);
  void refuse_waiting(const Place& place, const Error& error, Finishes& out) YONDER_REQUIRES(mutex_);
  void take_message(WorkerProcess& worker) YONDER_EXCLUDES(mutex_);
  void take_reply(Workers::iterator worker, const internal::Reply& reply, Finishes& out)
      YONDER_REQUIRES(mutex_);
  void expire(Finishes& out) YONDER_REQUIRES(mutex_);
  // Gives waiting jobs to workers; the place that needs a new one, if one can be started.
  std::optional<Job> assign() YONDER_REQUIRES(mutex_);
  bool make_room() YONDER_REQUIRES(mutex_);
  void start_for(Job job) YONDER_EXCLUDES(mutex_);
  Result<std::unique_ptr<WorkerProcess>> start_worker(Job& job) const;
  void end_all(Finishes& out) YONDER_REQUIRES(mutex_);
  Workers::iterator place_of(const WorkerProcess* worker) YONDER_REQUIRES(mutex_);

  const HostOptions options_;
  const os::Fd directory_;
  const os::Epoll epoll_;
  const os::EventFd wakes_;

  mutable sync::Mutex mutex_;
  sync::Condition gone_;  // A worker has ended.
  bool stopping_ YONDER_GUARDED_BY(mutex_) = false;
  std::deque<Job> waiting_ YONDER_GUARDED_BY(mutex_);
  Workers workers_ YONDER_GUARDED_BY(mutex_);
  std::vector<std::string> forgotten_ YONDER_GUARDED_BY(mutex_);
  Instant looks_at_ YONDER_GUARDED_BY(mutex_);  // When the watcher wakes by itself.
  HostStats stats_ YONDER_GUARDED_BY(mutex_);
  // The place of the worker that the watcher is starting without the lock.
  std::optional<Place> starting_ YONDER_GUARDED_BY(mutex_);
  std::array<std::byte, internal::kMaxReplyMessage + 1> buffer_;  // The watcher's.
};

// ---------------------------------------------------------------- calls

void Host::call(CallRequest request, Done done) {
  auto name = FunctionName::parse(request.function);
  const bool good_address = request.address != 0 && request.address % os::kPageBytes == 0;
  if (!name || !good_address || request.arguments.size() > kMaxArgumentBytes)
    return done({.code = ErrorCode::kInvalidArgument});
  const Deadline latest = Deadline::at(now() + parts_->options().max_time);
  parts_->submit(
      {.place = {.memory = std::move(request.memory), .address = request.address, .library = name->library},
       .name = *std::move(name),
       .version = request.version,
       .arguments = {request.arguments.begin(), request.arguments.end()},
       .deadline = Deadline::earlier(request.deadline, latest),
       .open_memory = std::move(request.open_memory),
       .done = std::move(done)});
}

void Host::Parts::submit(Job job) {
  ErrorCode refusal = ErrorCode::kOk;
  {
    sync::LockGuard lock(mutex_);
    ++stats_.calls;
    if (stopping_) {
      refusal = ErrorCode::kStopping;
    } else if (WorkerProcess* worker = find_idle(job.place); worker != nullptr) {
      const Deadline deadline = job.deadline;
      // If it has hung up, the watcher is about to see that, and tells.
      (void)worker->give(std::move(job));
      return wake_for(deadline);
    } else if (waiting_.size() >= options_.max_waiting) {
      refusal = ErrorCode::kOverloaded;
    } else {
      waiting_.push_back(std::move(job));
      return wakes_.ring();
    }
    ++stats_.failed;
  }
  job.done({.code = refusal});
}

WorkerProcess* Host::Parts::find_idle(const Place& place) {
  for (const auto& worker : workers_)
    if (worker->state() == State::kIdle && worker->place() == place) return worker.get();
  return nullptr;
}

bool Host::Parts::is_starting(const Place& place) const {
  return std::ranges::any_of(workers_, [&](const auto& worker) {
    return worker->state() == State::kStarting && worker->place() == place;
  });
}

void Host::Parts::wake_for(Deadline deadline) {
  if (deadline.instant() < looks_at_) wakes_.ring();
}

void Host::Parts::finish(Job job, const Error& error, Finishes& out) {
  ++stats_.failed;
  out.push_back({.done = std::move(job.done), .code = error.code(), .detail = error.detail()});
}

// ---------------------------------------------------------------- the watcher

void Host::Parts::run() {
  std::array<os::EpollEvent, 64> events;
  for (;;) {
    Deadline until;
    {
      sync::LockGuard lock(mutex_);
      if (stopping_ && workers_.empty() && waiting_.empty()) return;
      until = next_look();
      looks_at_ = until.instant();
    }
    const auto seen = epoll_.wait(events, until);
    YONDER_CHECK(seen.has_value(), "the host's own descriptors can be waited for");
    for (const os::EpollEvent& event : *seen) {
      if (event.token == 0) {
        (void)wakes_.take();
      } else {
        take_message(*reinterpret_cast<WorkerProcess*>(event.token));
      }
    }
    Finishes finishes;
    std::optional<Job> unserved;
    {
      sync::LockGuard lock(mutex_);
      if (stopping_) end_all(finishes);
      expire(finishes);
      unserved = assign();
      if (unserved) starting_ = unserved->place;
    }
    internal::tell(finishes);
    if (unserved) start_for(*std::move(unserved));
  }
}

Deadline Host::Parts::next_look() const {
  if (workers_.empty() && waiting_.empty()) return Deadline::never();
  Deadline next = Deadline::at(now() + kLook);
  for (const auto& worker : workers_) next = Deadline::earlier(next, worker->deadline());
  for (const Job& job : waiting_) next = Deadline::earlier(next, job.deadline);
  return next;
}

Host::Parts::Workers::iterator Host::Parts::place_of(const WorkerProcess* worker) {
  return std::ranges::find(workers_, worker, [](const auto& each) { return each.get(); });
}

void Host::Parts::take_message(WorkerProcess& from) {
  Finishes finishes;
  {
    sync::LockGuard lock(mutex_);
    // An event of one that has been buried since.
    const auto worker = place_of(&from);
    if (worker == workers_.end()) return;
    const Result<std::optional<internal::Reply>> reply = from.receive(buffer_);
    if (!reply && reply.error() == ErrorCode::kMalformedFrame) {
      bury(worker, Error(ErrorCode::kFunctionCrashed, "offload: what the function's process said"), finishes);
    } else if (!reply) {
      bury(worker, {}, finishes);
    } else if (*reply) {
      take_reply(worker, **reply, finishes);
    }
  }
  internal::tell(finishes);
}

void Host::Parts::take_reply(Workers::iterator worker, const internal::Reply& reply, Finishes& out) {
  const Error error = internal::error_of(reply.verdict, reply.detail);
  const bool is_starting = (*worker)->state() == State::kStarting;
  const bool cannot_start = is_starting && reply.verdict != Verdict::kDone;
  if (cannot_start || reply.verdict == Verdict::kForbidden) return bury(worker, error, out);
  std::optional<Job> job = std::exchange((*worker)->job(), std::nullopt);
  (*worker)->become_idle(now());
  if (!job) return;
  if (reply.verdict == Verdict::kDone) {
    out.push_back({.done = std::move(job->done), .result = reply.result});
  } else {
    finish(*std::move(job), error, out);
  }
}

void Host::Parts::bury(Workers::iterator worker, std::optional<Error> why, Finishes& out) {
  (void)epoll_.remove((*worker)->socket());
  const os::ExitStatus status = (*worker)->end(why.has_value());
  const Error error = why ? *why : internal::error_of(status);
  if (std::optional<Job>& job = (*worker)->job(); job) finish(std::move(*job), error, out);
  // Whoever waits for a worker that cannot start would wait for the next one in vain.
  if ((*worker)->state() == State::kStarting) refuse_waiting((*worker)->place(), error, out);
  workers_.erase(worker);
  gone_.notify_all();
}

void Host::Parts::refuse_waiting(const Place& place, const Error& error, Finishes& out) {
  for (auto job = waiting_.begin(); job != waiting_.end();) {
    if (job->place == place) {
      finish(std::move(*job), error, out);
      job = waiting_.erase(job);
    } else {
      ++job;
    }
  }
}

void Host::Parts::expire(Finishes& out) {
  const Instant at = now();
  for (auto worker = workers_.begin(); worker != workers_.end();) {
    const auto next = std::next(worker);
    const bool is_idle = (*worker)->state() == State::kIdle;
    if (std::ranges::find(forgotten_, (*worker)->place().memory) != forgotten_.end()) {
      bury(worker, Error(ErrorCode::kNotFound, "offload: the memory was removed"), out);
    } else if (is_idle && at - (*worker)->idle_since() >= options_.idle_timeout) {
      bury(worker, Error(ErrorCode::kClosed, "offload: a worker that nobody used"), out);
    } else if (!is_idle && (*worker)->deadline().passed(at)) {
      bury(worker, Error(ErrorCode::kFunctionDeadline, "offload: a function that was not done"), out);
    }
    worker = next;
  }
  for (auto job = waiting_.begin(); job != waiting_.end();) {
    const bool is_gone = std::ranges::find(forgotten_, job->place.memory) != forgotten_.end();
    if (!is_gone && !job->deadline.passed(at)) {
      ++job;
      continue;
    }
    finish(std::move(*job),
           is_gone ? Error(ErrorCode::kNotFound, "offload: the memory was removed")
                   : Error(ErrorCode::kOverloaded, "offload: no worker became free"),
           out);
    job = waiting_.erase(job);
  }
  forgotten_.clear();
  gone_.notify_all();
}

std::optional<Job> Host::Parts::assign() {
  for (auto job = waiting_.begin(); job != waiting_.end();) {
    if (WorkerProcess* worker = find_idle(job->place); worker != nullptr) {
      (void)worker->give(std::move(*job));
      job = waiting_.erase(job);
    } else if (is_starting(job->place) || !make_room()) {
      ++job;
    } else {
      Job first = std::move(*job);
      waiting_.erase(job);
      return first;
    }
  }
  return std::nullopt;
}

// Whether one more worker may be started; the one that was idle the longest goes for it.
bool Host::Parts::make_room() {
  if (workers_.size() < options_.max_workers) return true;
  auto oldest = workers_.end();
  for (auto worker = workers_.begin(); worker != workers_.end(); ++worker) {
    if ((*worker)->state() != State::kIdle) continue;
    if (oldest == workers_.end() || (*worker)->idle_since() < (*oldest)->idle_since()) oldest = worker;
  }
  if (oldest == workers_.end()) return false;
  Finishes none;
  bury(oldest, Error(ErrorCode::kClosed, "offload: a worker that made room"), none);
  return true;
}

Result<std::unique_ptr<WorkerProcess>> Host::Parts::start_worker(Job& job) const {
  YONDER_TRY(library, open_library(directory_, job.name.file()));
  YONDER_TRY(memory, job.open_memory());
  return WorkerProcess::start({.program = options_.program,
                               .memory_limit = options_.memory.count(),
                               .deadline = Deadline::at(now() + options_.start_timeout)},
                              memory, library, job.place);
}

void Host::Parts::start_for(Job job) {
  auto worker = start_worker(job);
  if (worker) {
    const auto token = reinterpret_cast<std::uint64_t>(worker->get());
    const Result<void> watched = epoll_.add((*worker)->socket(), os::kEpollReadable, token);
    if (!watched) worker = std::unexpected(watched.error());
  }
  Finishes finishes;
  {
    sync::LockGuard lock(mutex_);
    starting_.reset();
    if (worker) {
      ++stats_.started;
      // The job waits for it, first in line; the next look finds what was forgotten meanwhile.
      workers_.push_back(*std::move(worker));
      waiting_.push_front(std::move(job));
    } else {
      finish(std::move(job), worker.error(), finishes);
    }
    gone_.notify_all();
  }
  // Whoever else waits, for another place say, is looked at again.
  wakes_.ring();
  internal::tell(finishes);
}

// ---------------------------------------------------------------- the end

void Host::Parts::forget(std::string_view memory) {
  sync::LockGuard lock(mutex_);
  const auto is_used = [&]() YONDER_REQUIRES(mutex_) {
    return (starting_ && starting_->memory == memory) ||
           std::ranges::any_of(workers_,
                               [&](const auto& worker) { return worker->place().memory == memory; }) ||
           std::ranges::any_of(waiting_, [&](const Job& job) { return job.place.memory == memory; });
  };
  // Killing takes milliseconds; starting, which has to end first, has its own deadline.
  const Deadline deadline = Deadline::at(now() + 2 * options_.start_timeout);
  while (is_used() && !deadline.passed(now())) {
    forgotten_.emplace_back(memory);
    wakes_.ring();
    (void)gone_.wait(lock, deadline);
  }
}

void Host::Parts::end_all(Finishes& out) {
  const Error why(ErrorCode::kStopping, "offload: the host is stopping");
  while (!workers_.empty()) bury(workers_.begin(), why, out);
  for (Job& job : waiting_) finish(std::move(job), why, out);
  waiting_.clear();
}

void Host::Parts::begin_stop() {
  sync::LockGuard lock(mutex_);
  stopping_ = true;
  wakes_.ring();
}

Result<std::unique_ptr<Host>> Host::create(const HostOptions& options) {
  if (options.max_workers == 0 || options.max_waiting == 0 || options.max_time <= Duration(0))
    return fail(ErrorCode::kInvalidArgument, "offload: limits of functions");
  HostOptions chosen = options;
  if (chosen.program.empty()) {
    YONDER_TRY(program, default_program());
    chosen.program = std::move(program);
  }
  if (::access(chosen.program.c_str(), X_OK) != 0)
    return fail(ErrorCode::kNotFound, "offload: the program yonder-offload, beside this one", errno);
  YONDER_TRY(directory, os::Fd::open(options.directory.c_str(), O_RDONLY | O_DIRECTORY));
  YONDER_TRY(epoll, os::Epoll::create());
  YONDER_TRY(wakes, os::EventFd::create());
  YONDER_TRY_VOID(epoll.add(wakes.fd(), os::kEpollReadable, 0));
  auto parts = std::make_unique<Parts>(chosen, std::move(directory), std::move(epoll), std::move(wakes));
  return std::unique_ptr<Host>(new Host(std::move(parts)));
}

Host::Host(std::unique_ptr<Parts> parts)
    : parts_(std::move(parts)), watcher_([raw = parts_.get()] { raw->run(); }) {}

Host::~Host() { stop(); }

void Host::stop() {
  parts_->begin_stop();
  if (watcher_.joinable()) watcher_.join();
}

void Host::forget(std::string_view memory) { parts_->forget(memory); }
HostStats Host::stats() const { return parts_->stats(); }

}  // namespace yonder::offload
