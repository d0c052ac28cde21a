#include "bench/rcached/cache_process.h"

#include <fcntl.h>
#include <unistd.h>

#include <thread>
#include <utility>

#include "yonder/os/fd.h"
#include "yonder/os/free_port.h"
#include "yonder/os/socket.h"
#include "yonder/os/steady_clock.h"

namespace yonder::bench {

Result<CacheProcess> CacheProcess::start(const CacheProcessOptions& options) {
  // memcached does not tell which port it took if it may choose.
  YONDER_TRY(address, os::free_port());
  YONDER_TRY(quiet, os::Fd::open("/dev/null", O_WRONLY));
  std::vector<std::string> argv = {options.program,
                                   "-l",
                                   "127.0.0.1",
                                   "-p",
                                   std::to_string(address.port()),
                                   "-m",
                                   std::to_string(options.memory_mib),
                                   "-t",
                                   std::to_string(options.threads),
                                   "-U",
                                   "0"};
  // memcached refuses to be root by accident.
  if (::geteuid() == 0) argv.insert(argv.end(), {"-u", "root"});
  argv.insert(argv.end(), options.further.begin(), options.further.end());
  YONDER_TRY(child, os::Child::spawn({.argv = argv, .stdout_fd = quiet.get()}));
  const Instant give_up = os::SteadyClock::read() + std::chrono::seconds(10);
  for (;;) {
    const auto probe = os::Socket::connect(address, {}, Deadline::at(give_up));
    if (probe) return CacheProcess(std::move(child), address);
    if (os::SteadyClock::read() >= give_up) return std::unexpected(probe.error());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

Result<std::uint64_t> CacheProcess::resident_bytes() const {
  YONDER_TRY(usage, os::usage_of(child_.pid()));
  return usage.rss_bytes;
}

}  // namespace yonder::bench
