#include "yonder/fabric/tcp/internal/region_table.h"

#include <mutex>
#include <utility>

#include "yonder/base/check.h"
#include "yonder/base/secure_random.h"

namespace yonder::fabric::tcp {
namespace {

// How long rebind() lets requests on the old memory finish before it fails them:
// far more than a transfer in good order needs, and short for whoever waits.
constexpr Duration kRebindGrace = std::chrono::milliseconds(200);

Result<void> check_memory(std::span<std::byte> memory) {
  if (memory.empty()) return fail(ErrorCode::kInvalidArgument, "register memory: no bytes");
  return {};
}

}  // namespace

class TcpRegion final : public RegionImpl {
 public:
  TcpRegion(RegionTable& table, std::uint64_t key, std::shared_ptr<Binding> binding)
      : table_(table), key_(key), binding_(std::move(binding)) {}
  ~TcpRegion() override { TcpRegion::revoke(); }

  RegionToken token() const override {
    return {.key = RegionKey{key_},
            .length = binding_->memory().size(),
            .rights = binding_->rights(),
            .atomics = AtomicsBy::kCpu};
  }
  LocalKey local_key() const override { return kUnregistered; }
  std::span<std::byte> memory() const override { return binding_->memory(); }
  Result<void> prefetch(std::uint64_t, std::uint64_t) override {
    return fail(ErrorCode::kUnsupported, "prefetch: tcp has no translations to load");
  }

  Result<void> rebind(std::span<std::byte> memory, std::optional<Backing>) override {
    if (revoked_) return fail(ErrorCode::kClosed, "rebind a revoked region");
    YONDER_TRY_VOID(check_memory(memory));
    auto fresh = std::make_shared<Binding>(memory, binding_->rights(), binding_->tenant());
    // New requests find the fresh binding from here on; a stream that still
    // remembers the old one is refused by retire() and looks again.
    table_.replace(key_, fresh);
    binding_->retire();
    binding_->await_idle(kRebindGrace);
    binding_->kill();
    binding_ = std::move(fresh);
    return {};
  }

  void revoke() override {
    if (std::exchange(revoked_, true)) return;
    table_.remove(key_);
    binding_->kill();
  }

 private:
  RegionTable& table_;
  const std::uint64_t key_;
  std::shared_ptr<Binding> binding_;
  bool revoked_ = false;
};

RegionTable::~RegionTable() { YONDER_CHECK(by_key_.empty(), "a region outlives its fabric"); }

Result<Region> RegionTable::add(const RegisterOptions& options) {
  YONDER_TRY_VOID(check_memory(options.memory));
  if (options.rights == Rights::kNone) return fail(ErrorCode::kInvalidArgument, "register memory: no rights");
  if (options.on_demand_paging)
    return fail(ErrorCode::kUnsupported, "register memory: tcp has no device that pages on demand");
  auto binding = std::make_shared<Binding>(options.memory, options.rights, options.tenant);
  const std::unique_lock lock(mutex_);
  for (;;) {
    YONDER_TRY(key, secure_random_u64());
    if (key == 0 || !by_key_.emplace(key, binding).second) continue;
    return Region(std::make_unique<TcpRegion>(*this, key, binding));
  }
}

std::shared_ptr<Binding> RegionTable::find(std::uint64_t key) const {
  const std::shared_lock lock(mutex_);
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : found->second;
}

void RegionTable::replace(std::uint64_t key, std::shared_ptr<Binding> binding) {
  const std::unique_lock lock(mutex_);
  by_key_[key] = std::move(binding);
}

void RegionTable::remove(std::uint64_t key) {
  const std::unique_lock lock(mutex_);
  by_key_.erase(key);
}

}  // namespace yonder::fabric::tcp
