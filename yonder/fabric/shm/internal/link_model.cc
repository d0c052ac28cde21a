#include "yonder/fabric/shm/internal/link_model.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

namespace yonder::fabric::shm {
namespace {

struct Preset {
  std::string_view name;
  LinkModel model;
};

constexpr std::array<Preset, 6> kPresets = {{
    {"rdma200g", {.latency_ns = 1600, .gap_ns = 5, .bandwidth_mbps = 25'000}},
    {"rdma100g", {.latency_ns = 1800, .gap_ns = 8, .bandwidth_mbps = 12'500}},
    {"rdma40g", {.latency_ns = 2200, .gap_ns = 20, .bandwidth_mbps = 5'000}},
    {"cxl", {.latency_ns = 400, .gap_ns = 0, .bandwidth_mbps = 30'000}},
    {"tcp25g", {.latency_ns = 18'000, .gap_ns = 400, .bandwidth_mbps = 3'100}},
    {"tcp10g", {.latency_ns = 25'000, .gap_ns = 700, .bandwidth_mbps = 1'250}},
}};

// A latency of a minute is a mistake, and sums of such numbers cannot overflow.
constexpr std::uint64_t kLargest = 60'000'000'000;

Result<std::optional<std::uint64_t>> number(const std::map<std::string, std::string>& options,
                                            const std::string& name) {
  const auto found = options.find(name);
  if (found == options.end()) return std::nullopt;
  std::uint64_t value = 0;
  const std::string& text = found->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > kLargest)
    return fail(ErrorCode::kAddressInvalid, "address: a number of the link model");
  return value;
}

}  // namespace

Result<std::optional<LinkModel>> LinkModel::from_options(const std::map<std::string, std::string>& options) {
  std::optional<LinkModel> model;
  if (const auto found = options.find("model"); found != options.end()) {
    const auto preset = std::ranges::find(kPresets, found->second, &Preset::name);
    if (preset == kPresets.end()) return fail(ErrorCode::kAddressInvalid, "address: unknown link model");
    model = preset->model;
  }
  YONDER_TRY(latency, number(options, "latency_ns"));
  YONDER_TRY(bandwidth, number(options, "bandwidth_mbps"));
  YONDER_TRY(gap, number(options, "gap_ns"));
  if (!model && (latency || bandwidth || gap)) model = LinkModel();
  if (latency) model->latency_ns = static_cast<std::int64_t>(*latency);
  if (bandwidth) model->bandwidth_mbps = *bandwidth;
  if (gap) model->gap_ns = static_cast<std::int64_t>(*gap);
  return model;
}

Instant PacedLink::due(Instant now, std::uint64_t bytes) {
  // 1 MB/s is 1 byte per µs: ns = bytes × 1000 / mbps. Bytes are below 2^31.
  const std::uint64_t wire_ns = model_.bandwidth_mbps == 0 ? 0 : bytes * 1000 / model_.bandwidth_mbps;
  const std::int64_t busy_ns = std::max(model_.gap_ns, static_cast<std::int64_t>(wire_ns));
  free_ = std::max(now, free_) + Duration(busy_ns);
  return free_ + Duration(model_.latency_ns);
}

}  // namespace yonder::fabric::shm
