#include "bench/migrate/pair.h"

#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include "yonder/fabric/open/open.h"
#include "yonder/os/wait.h"

namespace yonder::bench {

namespace {

constexpr Duration kPatience = std::chrono::seconds(120);

std::string address_of(const std::string& provider) {
  return provider == "tcp" ? "tcp://127.0.0.1:0" : "shm:";
}

void pin_to(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  ::sched_setaffinity(0, sizeof set, &set);
}

Result<void> send_all(int fd, const void* data, std::size_t size) {
  if (::send(fd, data, size, MSG_NOSIGNAL) != static_cast<ssize_t>(size))
    return fail(ErrorCode::kConnectionLost, "speak to the other process");
  return {};
}

Result<void> receive_all(int fd, void* data, std::size_t size) {
  YONDER_TRY_VOID(
      os::wait_ready(fd, os::Ready::kReadable, Deadline::at(os::SteadyClock::read() + kPatience)));
  if (::recv(fd, data, size, MSG_WAITALL) != static_cast<ssize_t>(size))
    return fail(ErrorCode::kConnectionLost, "hear the other process");
  return {};
}

segment::AgentOptions agent_options(const PairOptions& options) {
  const std::string address = address_of(options.provider);
  segment::AgentOptions agent{.address = address, .data_address = address};
  agent.receive = options.receive;
  agent.timeout = std::chrono::seconds(60);  // Making room for gigabytes takes its time.
  return agent;
}

Result<void> be_target(PairLine& line, const PairOptions& options, const Pair::Body& body) {
  if (options.pin) pin_to(1);
  YONDER_TRY(directory_address, line.hear_text());
  YONDER_TRY(fabric, fabric::open(address_of(options.provider)));
  YONDER_TRY(arena, segment::Arena::reserve({}));
  YONDER_TRY(directory, segment::RemoteDirectory::connect(*fabric, directory_address));
  segment::AgentOptions agent_settings = agent_options(options);
  agent_settings.on_received = options.on_received;
  YONDER_TRY(agent, segment::Agent::create(*fabric, *arena, *directory, std::move(agent_settings)));
  YONDER_TRY_VOID(line.say(static_cast<double>(agent->id().value())));
  TargetSide side(*agent, *fabric, line);
  return body(side);
}

}  // namespace

Result<void> PairLine::say(double number) { return send_all(fd_.get(), &number, sizeof number); }

Result<double> PairLine::hear() {
  double number = 0;
  YONDER_TRY_VOID(receive_all(fd_.get(), &number, sizeof number));
  return number;
}

Result<void> PairLine::say_text(const std::string& text) {
  std::array<char, 512> buffer{};
  text.copy(buffer.data(), buffer.size() - 1);
  return send_all(fd_.get(), buffer.data(), buffer.size());
}

Result<std::string> PairLine::hear_text() {
  std::array<char, 512> buffer{};
  YONDER_TRY_VOID(receive_all(fd_.get(), buffer.data(), buffer.size()));
  return std::string(buffer.data());
}

Result<std::unique_ptr<Pair>> Pair::start(const PairOptions& options, const Body& target) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return fail_errno("socketpair");
  os::Fd ours(ends[0]);
  os::Fd theirs(ends[1]);
  std::unique_ptr<Pair> pair(new Pair);
  YONDER_TRY(child, os::Child::fork([&] {
               ours.reset();
               PairLine line(std::move(theirs));
               const Result<void> done = be_target(line, options, target);
               if (!done) std::fprintf(stderr, "bench target: %s\n", done.error().to_string().c_str());
               return done ? 0 : 1;
             }));
  pair->child_.emplace(std::move(child));
  pair->line_ = std::make_unique<PairLine>(std::move(ours));
  YONDER_TRY_VOID(pair->open(options));
  return pair;
}

Result<void> Pair::open(const PairOptions& options) {
  if (options.pin) pin_to(0);
  const std::string address = address_of(options.provider);
  YONDER_TRY(fabric, fabric::open(address));
  fabric_ = std::move(fabric);
  YONDER_TRY(arena, segment::Arena::reserve({}));
  arena_ = std::move(arena);
  directory_ = std::make_unique<segment::LocalDirectory>(clock_, segment::LocalDirectoryOptions{});
  YONDER_TRY(server, rpc::Server::create(*fabric_, {.address = address}));
  server_ = std::move(server);
  segment::serve_directory(*server_, *directory_);
  YONDER_TRY_VOID(server_->start());
  YONDER_TRY(agent, segment::Agent::create(*fabric_, *arena_, *directory_, agent_options(options)));
  agent_ = std::move(agent);
  YONDER_TRY_VOID(line_->say_text(server_->address()));
  YONDER_TRY(id, line_->hear());
  target_ = segment::ProcessId(static_cast<std::uint64_t>(id));
  return {};
}

Result<void> Pair::finish() {
  YONDER_TRY(status, child_->wait(Deadline::at(os::SteadyClock::read() + kPatience)));
  if (!status.success())
    return fail(ErrorCode::kHandlerFailed, "the target's part of a benchmark", status.value);
  return {};
}

Pair::~Pair() {
  // A single core was this process's for the measurement only.
  cpu_set_t all;
  CPU_ZERO(&all);
  for (long i = 0; i < ::sysconf(_SC_NPROCESSORS_ONLN); ++i) CPU_SET(static_cast<int>(i), &all);
  ::sched_setaffinity(0, sizeof all, &all);
}

}  // namespace yonder::bench
