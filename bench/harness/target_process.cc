#include "bench/harness/target_process.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string_view>

#include "yonder/fabric/address.h"
#include "yonder/fabric/open/open.h"
#include "yonder/os/mapping.h"
#include "yonder/os/memfd.h"
#include "yonder/os/steady_clock.h"
#include "yonder/os/wait.h"

namespace yonder::bench {
namespace {

constexpr std::string_view kReady = "ready ";
constexpr Duration kStartTimeout = std::chrono::seconds(30);

// One fabric, its region and its listener, in the order they must be destroyed.
struct Lender {
  std::unique_ptr<fabric::Fabric> fabric;
  fabric::Region region;
  std::unique_ptr<fabric::Listener> listener;
};

Result<Lender> lend(const std::string& address, const os::Memfd& memfd, std::span<std::byte> memory) {
  Lender lender;
  YONDER_TRY(opened, fabric::open(address));
  lender.fabric = std::move(opened);
  YONDER_TRY(region, lender.fabric->register_memory({.memory = memory,
                                                     .rights = fabric::Rights::kAll,
                                                     .backing = fabric::Backing{.fd = memfd.fd().get()}}));
  lender.region = std::move(region);
  fabric::ListenOptions options{.address = address, .passive = true};
  options.greeting.resize(fabric::RegionToken::kEncodedBytes);
  lender.region.token().encode(std::span(options.greeting).first<fabric::RegionToken::kEncodedBytes>());
  YONDER_TRY(listener, lender.fabric->listen(options));
  lender.listener = std::move(listener);
  return lender;
}

// Blocks until the other end of our standard input is closed: the parent is gone.
void wait_for_end_of_input() {
  std::array<char, 64> ignored;
  while (::read(STDIN_FILENO, ignored.data(), ignored.size()) > 0) {
  }
}

Result<std::string> read_line(int fd, Deadline deadline) {
  std::string line;
  for (char c = 0; line.size() < 4096;) {
    YONDER_TRY_VOID(os::wait_ready(fd, os::Ready::kReadable, deadline));
    if (::read(fd, &c, 1) != 1)
      return fail(ErrorCode::kConnectionLost, "the memory target ended before it was ready");
    if (c == '\n') return line;
    line += c;
  }
  return fail(ErrorCode::kMalformedFrame, "the memory target printed an endless line");
}

struct Pipe {
  os::Fd read_end;
  os::Fd write_end;

  static Result<Pipe> create() {
    std::array<int, 2> ends;
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno("pipe2");
    return Pipe{os::Fd(ends[0]), os::Fd(ends[1])};
  }
};

}  // namespace

Result<void> serve_memory(const ServeOptions& options) {
  YONDER_TRY(memfd, os::Memfd::create({.name = "yonder-lent", .size = options.memory.count()}));
  YONDER_TRY(mapping, os::Mapping::of_file(memfd.fd(), {.bytes = memfd.size(),
                                                        .protection = os::Protection::kReadWrite,
                                                        .populate = true}));
  std::vector<Lender> lenders;
  for (const std::string& address : options.addresses) {
    YONDER_TRY(lender, lend(address, memfd, mapping.bytes()));
    lenders.push_back(std::move(lender));
  }
  for (const Lender& lender : lenders) std::printf("ready %s\n", lender.listener->address().c_str());
  std::fflush(stdout);
  wait_for_end_of_input();
  // Regions before fabrics, listeners first of all.
  for (Lender& lender : lenders) {
    lender.listener.reset();
    lender.region = fabric::Region();
  }
  return {};
}

Result<TargetProcess> TargetProcess::start(const std::string& program, const ServeOptions& options) {
  YONDER_TRY(input, Pipe::create());
  YONDER_TRY(output, Pipe::create());
  std::vector<std::string> argv = {program, "serve-memory", "--memory",
                                   std::to_string(options.memory.count())};
  argv.insert(argv.end(), options.addresses.begin(), options.addresses.end());
  YONDER_TRY(child,
             os::Child::spawn(
                 {.argv = argv, .stdin_fd = input.read_end.get(), .stdout_fd = output.write_end.get()}));
  output.write_end.reset();  // So that the child's end shows as the end of its output.
  const Deadline deadline = Deadline::after(os::SteadyClock(), kStartTimeout);
  std::vector<std::string> addresses;
  while (addresses.size() < options.addresses.size()) {
    YONDER_TRY(line, read_line(output.read_end.get(), deadline));
    if (line.starts_with(kReady)) addresses.push_back(line.substr(kReady.size()));
  }
  return TargetProcess(std::move(child), std::move(input.write_end), std::move(addresses));
}

}  // namespace yonder::bench
