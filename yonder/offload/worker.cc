#include "yonder/offload/worker.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <string>
#include <utility>

#include "yonder/offload/confinement.h"
#include "yonder/offload/internal/messages.h"
#include "yonder/os/fd_passing.h"
#include "yonder/os/mapping.h"
#include "yonder/os/socket.h"
#include "yonder/os/steady_clock.h"

namespace yonder::offload {
namespace {

using internal::CallMessage;
using internal::ReplyMessage;
using internal::StartMessage;

constexpr int kChannel = STDIN_FILENO;
constexpr int kBadStart = 1;
constexpr Duration kStartPatience = std::chrono::seconds(10);

// Large, so not on the stack; of one thread.
std::array<std::byte, internal::kMaxCallMessage> call_buffer;
std::array<std::byte, internal::kMaxReplyMessage> reply_buffer;
volatile std::uint64_t current_call = 0;  // For the signal handler.

// The result, if any, stands behind the head already.
void send_reply(const ReplyMessage& head) {
  std::memcpy(reply_buffer.data(), &head, sizeof head);
  const ssize_t sent = ::write(kChannel, reply_buffer.data(), sizeof head + head.result_bytes);
  if (sent < 0) ::_exit(0);  // The host has hung up: nobody wants an answer.
}

void send_verdict(Verdict verdict, std::int64_t detail = 0) {
  send_reply({.number = current_call, .verdict = static_cast<std::uint32_t>(verdict), .detail = detail});
}

// A system call that is not allowed. The function cannot go on: it may rely on the call.
void on_forbidden(int, siginfo_t* info, void*) {
  send_verdict(Verdict::kForbidden, info->si_syscall);
  ::_exit(0);
}

Result<void> catch_forbidden_calls() {
  struct sigaction action{};
  action.sa_sigaction = &on_forbidden;
  action.sa_flags = SA_SIGINFO;
  if (::sigaction(SIGSYS, &action, nullptr) != 0) return fail_errno("sigaction(SIGSYS)");
  return {};
}

void* load(const os::Fd& library) {
  // By its descriptor: the file that the host has looked at, whatever its name means now.
  return ::dlopen(("/proc/self/fd/" + std::to_string(library.get())).c_str(), RTLD_NOW | RTLD_LOCAL);
}

struct Start {
  StartMessage message;
  os::Fd memory;
  os::Fd library;
};

Result<Start> receive_start() {
  YONDER_TRY(socket, os::Socket::adopt(os::Fd(::fcntl(kChannel, F_DUPFD_CLOEXEC, 3))));
  StartMessage message;
  auto got = os::receive_with_fds(socket, std::as_writable_bytes(std::span(&message, 1)), 2,
                                  Deadline::at(os::SteadyClock::read() + kStartPatience));
  // From here on the channel, which is the same socket, blocks.
  YONDER_TRY_VOID(socket.fd().set_nonblocking(false));
  if (!got) return std::unexpected(got.error());
  if (got->bytes != sizeof message || got->fds.size() != 2)
    return fail(ErrorCode::kMalformedFrame, "offload: the start of a worker");
  return Start{.message = message, .memory = std::move(got->fds[0]), .library = std::move(got->fds[1])};
}

Result<void> confine(const StartMessage& start) {
  YONDER_TRY_VOID(catch_forbidden_calls());
  YONDER_TRY_VOID(limit_memory(start.memory_limit));
  return forbid_calls({.channel = kChannel, .notes = STDERR_FILENO});
}

const FunctionRecord* find(void* library, const char* function) {
  const std::string symbol = std::string("yonder_offload_") + function;
  return static_cast<const FunctionRecord*>(::dlsym(library, symbol.c_str()));
}

void answer(void* library, std::span<const std::byte> bytes) {
  CallMessage call;
  if (bytes.size() < sizeof call) ::_exit(kBadStart);
  std::memcpy(&call, bytes.data(), sizeof call);
  call.function.back() = 0;
  current_call = call.number;
  const FunctionRecord* function = find(library, call.function.data());
  if (function == nullptr) return send_verdict(Verdict::kUnknown);
  if (function->abi != kAbi) return send_verdict(Verdict::kBadLibrary, function->abi);
  if (function->version != call.version) return send_verdict(Verdict::kWrongVersion, function->version);
  Frame frame{.arguments = bytes.subspan(sizeof call),
              .result = std::span(reply_buffer).subspan(sizeof(ReplyMessage))};
  const Verdict verdict = function->invoke(frame);
  send_reply({.number = call.number,
              .verdict = static_cast<std::uint32_t>(verdict),
              .result_bytes = verdict == Verdict::kDone ? static_cast<std::uint32_t>(frame.result_bytes) : 0,
              .detail = frame.detail});
}

[[noreturn]] void serve(void* library) {
  for (;;) {
    const ssize_t got = ::read(kChannel, call_buffer.data(), call_buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) ::_exit(0);
    answer(library, std::span(call_buffer).first(static_cast<std::size_t>(got)));
  }
}

}  // namespace

int run_worker() {
  if (!drop_rights()) return kBadStart;
  auto start = receive_start();
  if (!start) return kBadStart;
  auto memory = os::Mapping::of_file(start->memory, {.bytes = start->message.bytes,
                                                     .protection = os::Protection::kReadWrite,
                                                     .at = reinterpret_cast<void*>(start->message.address)});
  if (!memory) {
    send_verdict(Verdict::kNoPlace, static_cast<std::int64_t>(memory.error().code()));
    return kBadStart;
  }
  void* const library = load(start->library);
  if (library == nullptr) {
    send_verdict(Verdict::kBadLibrary);
    return kBadStart;
  }
  start->memory.reset();
  start->library.reset();
  // Whatever else is open is nothing of the function's; 2 is /dev/null.
  ::close(STDOUT_FILENO);
  ::syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0);
  if (!confine(start->message)) return kBadStart;
  send_verdict(Verdict::kDone);
  serve(library);
}

}  // namespace yonder::offload
