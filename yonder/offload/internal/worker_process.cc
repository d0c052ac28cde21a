#include "yonder/offload/internal/worker_process.h"

#include <fcntl.h>
#include <signal.h>

#include <array>
#include <utility>

#include "yonder/base/check.h"
#include "yonder/os/fd_passing.h"
#include "yonder/os/steady_clock.h"

namespace yonder::offload::internal {
namespace {

// A process that was killed is gone in milliseconds; one that hung up, too.
constexpr Duration kEndPatience = std::chrono::seconds(2);

Deadline after(Duration duration) { return Deadline::at(os::SteadyClock::read() + duration); }

}  // namespace

Result<std::unique_ptr<WorkerProcess>> WorkerProcess::start(const StartOptions& options,
                                                            const MemoryFile& memory, const os::Fd& library,
                                                            Place place) {
  YONDER_TRY(pair, os::Socket::pair(os::SocketKind::kSeqpacket));
  YONDER_TRY(null, os::Fd::open("/dev/null", O_RDWR));
  YONDER_TRY(child, os::Child::spawn({.argv = {options.program},
                                      .stdin_fd = pair.second.fd().get(),
                                      .stdout_fd = null.get(),
                                      .stderr_fd = null.get()}));
  const StartMessage message{
      .address = place.address, .bytes = memory.bytes, .memory_limit = options.memory_limit};
  const std::array<int, 2> files = {memory.file.get(), library.get()};
  YONDER_TRY_VOID(
      os::send_with_fds(pair.first, std::as_bytes(std::span(&message, 1)), files, options.deadline));
  return std::unique_ptr<WorkerProcess>(
      new WorkerProcess(std::move(child), std::move(pair.first), std::move(place), options.deadline));
}

bool WorkerProcess::give(Job job) {
  YONDER_CHECK(state_ == State::kIdle, "one call at a time");
  state_ = State::kBusy;
  deadline_ = job.deadline;
  job_ = std::move(job);
  CallMessage head{.number = ++calls_,
                   .version = job_->version,
                   .argument_bytes = static_cast<std::uint32_t>(job_->arguments.size())};
  job_->name.function.copy(head.function.data(), kMaxNamePart);
  const std::array parts = {iovec{.iov_base = &head, .iov_len = sizeof head},
                            iovec{.iov_base = job_->arguments.data(), .iov_len = job_->arguments.size()}};
  const auto sent = socket_.try_send(std::span<const iovec>(parts));
  return sent && *sent == sizeof head + job_->arguments.size();
}

Result<std::optional<Reply>> WorkerProcess::receive(std::span<std::byte> buffer) {
  YONDER_TRY(bytes, socket_.try_receive(buffer));
  if (bytes == 0) return std::nullopt;
  const std::optional<Reply> reply = parse_reply(buffer.first(bytes));
  const bool expected = reply && ((state_ == State::kStarting && reply->number == 0) ||
                                  (state_ == State::kBusy && reply->number == calls_));
  if (!expected) return fail(ErrorCode::kMalformedFrame, "offload: what a worker said");
  return reply;
}

void WorkerProcess::become_idle(Instant now) {
  state_ = State::kIdle;
  deadline_ = Deadline::never();
  idle_since_ = now;
}

os::ExitStatus WorkerProcess::end(bool by_force) {
  // One that hung up ends by itself, and its status says why.
  if (by_force) (void)child_.kill(SIGKILL);
  Result<os::ExitStatus> status = child_.wait(after(kEndPatience));
  if (!status) {
    (void)child_.kill(SIGKILL);
    status = child_.wait(after(kEndPatience));
  }
  return status.value_or(os::ExitStatus{.signalled = true, .value = SIGKILL});
}

}  // namespace yonder::offload::internal
