#include "bench/fragmentation/comparison.h"

#include <array>
#include <span>

#include "yonder/node/size_class.h"

namespace yonder::bench {
namespace {

struct Named {
  const char* name;
  StrategyChoice choice;
};
constexpr std::array kStrategies = {
    Named{"none", {Strategy::kNone}},          Named{"ideal", {Strategy::kIdeal}},
    Named{"mesh", {Strategy::kMesh}},          Named{"corm8", {Strategy::kCorm, 8}},
    Named{"corm12", {Strategy::kCorm, 12}},    Named{"corm16", {Strategy::kCorm, 16}},
    Named{"hybrid8", {Strategy::kHybrid, 8}},  Named{"hybrid12", {Strategy::kHybrid, 12}},
    Named{"hybrid16", {Strategy::kHybrid, 16}}};

PaperAllocatorOptions our_geometry(const node::SizeClasses& classes) {
  PaperAllocatorOptions out{.header_bytes = node::kHeaderBytes};
  for (std::size_t i = 0; i < classes.count(); ++i) {
    out.class_sizes.push_back(classes[i].slot_bytes);
    out.class_blocks.push_back(classes[i].frame_bytes);
  }
  return out;
}

void add_strategies(const PaperAllocator& allocator, double ours, const std::string& suffix, Report& report) {
  for (const Named& strategy : kStrategies) {
    const auto bytes = static_cast<double>(allocator.active_bytes(strategy.choice));
    report.result(std::string("active_bytes_") + strategy.name + suffix, bytes);
    const double ratio = ours / bytes;
    report.ratio(std::string("active_vs_") + strategy.name + suffix, std::span(&ratio, 1));
  }
}

}  // namespace

Result<Comparison> Comparison::create(const Options& options) {
  YONDER_TRY(ours, HeapReplay::create({.threads = options.threads, .seed = options.seed}));
  PaperAllocatorOptions same = our_geometry(ours.heap().classes());
  same.threads = options.threads;
  same.seed = options.seed;
  const PaperAllocatorOptions paper{
      .threads = options.threads, .seed = options.seed, .class_sizes = options.paper_classes};
  return Comparison(std::move(ours), PaperAllocator(std::move(same)), PaperAllocator(paper));
}

Result<void> Comparison::allocate(std::uint32_t object, std::uint32_t bytes) {
  same_.allocate(object, bytes);
  paper_.allocate(object, bytes);
  return ours_.allocate(object, bytes);
}

Result<void> Comparison::free(std::uint32_t object) {
  same_.free(object);
  paper_.free(object);
  return ours_.free(object);
}

void Comparison::report(const std::string& suffix, Report& report) {
  const Footprint before = ours_.footprint();
  ours_.compact();
  const Footprint after = ours_.footprint();
  const auto active = static_cast<double>(after.active_bytes);
  report.result("active_bytes_ours" + suffix, active);
  report.result("active_bytes_ours_before" + suffix, static_cast<double>(before.active_bytes));
  report.result("metadata_bytes_ours" + suffix, static_cast<double>(after.metadata_bytes));
  report.result("live_bytes" + suffix, static_cast<double>(after.live_bytes));
  const double vs_live = active / static_cast<double>(after.live_bytes);
  report.ratio("active_vs_live" + suffix, std::span(&vs_live, 1));
  const double all_vs_live =
      static_cast<double>(after.active_bytes + after.metadata_bytes) / static_cast<double>(after.live_bytes);
  report.ratio("active_and_metadata_vs_live" + suffix, std::span(&all_vs_live, 1));
  add_strategies(same_, active, suffix, report);
  add_strategies(paper_, active, suffix + "_1mib", report);
}

}  // namespace yonder::bench
