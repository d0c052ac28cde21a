#include "apps/yonderd/systemd_keeper.h"

#include <fmt/format.h>
#include <systemd/sd-daemon.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace yonder::apps {
namespace {

// Other descriptors of the service, sockets say, have other names.
constexpr std::string_view kPrefix = "yonder.";
constexpr std::uint64_t kBarrierUs = 5'000'000;

Result<void> check(int answer, const char* what) {
  if (answer > 0) return {};
  if (answer == 0)
    return fail(ErrorCode::kUnsupported, "keep memory with systemd: it takes no notifications");
  return std::unexpected(Error::from_errno(what, -answer));
}

Result<void> notify(const std::string& state, const int* file) {
  YONDER_TRY_VOID(check(::sd_pid_notify_with_fds(0, 0, state.c_str(), file, file != nullptr ? 1u : 0u),
                        "sd_pid_notify_with_fds"));
  // A process that is killed now must have handed it over.
  return check(::sd_notify_barrier(0, kBarrierUs), "sd_notify_barrier");
}

}  // namespace

Result<std::unique_ptr<SystemdKeeper>> SystemdKeeper::create() {
  std::unique_ptr<SystemdKeeper> keeper(new SystemdKeeper);
  char** names = nullptr;
  const int count = ::sd_listen_fds_with_names(/*unset_environment=*/1, &names);
  if (count < 0) return std::unexpected(Error::from_errno("sd_listen_fds_with_names", -count));
  for (int i = 0; i < count; ++i) {
    os::Fd file(SD_LISTEN_FDS_START + i);
    const std::string_view name = names[i];
    if (name.starts_with(kPrefix)) {
      keeper->files_.push_back({std::string(name.substr(kPrefix.size())), std::move(file)});
    } else {
      (void)file.release();  // Somebody else's.
    }
    std::free(names[i]);
  }
  std::free(names);
  return keeper;
}

Result<std::vector<node::KeptFile>> SystemdKeeper::files() {
  std::vector<node::KeptFile> out;
  for (const node::KeptFile& file : files_) {
    YONDER_TRY(copy, file.fd.duplicate());
    out.push_back({file.name, std::move(copy)});
  }
  return out;
}

Result<void> SystemdKeeper::keep(const std::string& name, const os::Fd& file) {
  YONDER_TRY(copy, file.duplicate());
  // Names are not unique there: the old one goes first.
  if (std::ranges::find(files_, name, &node::KeptFile::name) != files_.end()) YONDER_TRY_VOID(forget(name));
  const int raw = file.get();
  YONDER_TRY_VOID(notify(fmt::format("FDSTORE=1\nFDNAME={}{}", kPrefix, name), &raw));
  files_.push_back({name, std::move(copy)});
  return {};
}

Result<void> SystemdKeeper::forget(const std::string& name) {
  std::erase_if(files_, [&](const node::KeptFile& file) { return file.name == name; });
  return notify(fmt::format("FDSTOREREMOVE=1\nFDNAME={}{}", kPrefix, name), nullptr);
}

Result<void> SystemdKeeper::forget_all() {
  while (!files_.empty()) YONDER_TRY_VOID(forget(std::string(files_.back().name)));
  return {};
}

}  // namespace yonder::apps
