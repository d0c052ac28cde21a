#include "bench/fabric/verbs_guest.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "yonder/os/process.h"
#include "yonder/os/steady_clock.h"
#include "yonder/os/wait.h"

namespace yonder::bench {
namespace {

// A guest boots in 10 s and computes ten times slower than its host.
constexpr Duration kGuestTimeout = std::chrono::minutes(5);

// build/release/bin/yonder → tools/rdma-vm of the same tree.
std::filesystem::path guest_script(const std::string& program) {
  return std::filesystem::path(program).parent_path() / "../../../tools/rdma-vm";
}

Result<std::string> read_all(int fd, Deadline deadline) {
  std::string text;
  std::array<char, 4096> piece;
  while (true) {
    YONDER_TRY_VOID(os::wait_ready(fd, os::Ready::kReadable, deadline));
    const ssize_t count = ::read(fd, piece.data(), piece.size());
    if (count < 0) return fail_errno("read the guest's report");
    if (count == 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(count));
  }
}

Result<std::string> output_of(const std::vector<std::string>& argv) {
  std::array<int, 2> ends;
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno("pipe2");
  const os::Fd read_end(ends[0]);
  os::Fd write_end(ends[1]);
  YONDER_TRY(child, os::Child::spawn({.argv = argv, .stdout_fd = write_end.get()}));
  write_end.reset();  // So that the child's end shows as the end of its output.
  const Deadline deadline = Deadline::after(os::SteadyClock(), kGuestTimeout);
  YONDER_TRY(text, read_all(read_end.get(), deadline));
  YONDER_TRY(status, child.wait(deadline));
  if (!status.success())
    return fail(ErrorCode::kProviderUnavailable, "run the benchmark in the guest", status.value);
  return text;
}

}  // namespace

Result<void> add_verbs_from_guest(const Options& options, Report& report) {
  const std::filesystem::path script = guest_script(options.program);
  if (!std::filesystem::exists(script))
    return fail(ErrorCode::kNotFound, "find tools/rdma-vm beside the build tree");
  std::vector<std::string> argv = {script.string(), "--",    options.program, "bench", "fabric",
                                   "--fabric",      "verbs", "--json",        "-"};
  if (options.quick) argv.push_back("--quick");
  YONDER_TRY(text, output_of(argv));
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.contains("ratios"))
    return fail(ErrorCode::kCorrupt, "parse the guest's report");
  for (const auto& [key, value] : json["ratios"].items()) {
    report.ratio(key, value.get<double>(), json["spread"].value(key, 0.0));
  }
  for (const auto& [key, value] : json["results"].items()) report.result(key, value.get<double>());
  report.param("verbs_device", "Soft-RoCE in a QEMU guest");
  return {};
}

}  // namespace yonder::bench
