#include "bench/hashtable/sim_table.h"

#include <memory>
#include <span>
#include <vector>

#include "bench/lent/paper_cluster.h"
#include "yonder/base/distribution.h"
#include "yonder/base/prng.h"
#include "yonder/structures/hash_table.h"

namespace yonder::bench {
namespace {

using structures::HashTable;

constexpr std::uint64_t kTableBytes = std::uint64_t{64} << 20;

std::span<const std::byte> bytes_of(const std::uint64_t& number) {
  return std::as_bytes(std::span(&number, 1));
}

class FrontEnds {
 public:
  FrontEnds(const SimTableOptions& options, PaperCluster& lender)
      : options_(options), lender_(lender), keys_({.items = options.keys}), random_(options.seed) {}

  Result<double> measure() {
    for (std::uint32_t i = 0; i < options_.front_ends; ++i) YONDER_TRY_VOID(add_front_end(i));
    YONDER_TRY_VOID(fill());
    // Front ends find out which keys are hot, as the paper's do before it measures.
    until_ = lender_.clock().now() + options_.warm_up + options_.duration;
    for (auto& table : tables_) {
      for (std::uint32_t i = 0; i < options_.requests; ++i) lender_.scheduler().spawn(write(*table));
    }
    const std::uint64_t written = lender_.scheduler().block_on(count_written());
    const Duration patience = 20 * (options_.warm_up + options_.duration);
    YONDER_TRY_VOID(lender_.scheduler().run(Deadline::after(lender_.clock(), patience)));
    for (auto& table : tables_) YONDER_TRY_VOID(table->flush());
    YONDER_TRY_VOID(failed_);
    return static_cast<double>(written) * 1e3 / static_cast<double>(options_.duration.count());
  }

 private:
  // Within the time that is measured: changes that are in remote memory, not those that
  // were acknowledged, of which some are held back. Nobody stops before or after, so there
  // is no tail of stragglers to wait for, nor a beginning without them.
  fabric::Task<std::uint64_t> count_written() {
    co_await lender_.scheduler().sleep_for(options_.warm_up);
    const std::uint64_t before = in_memory();
    co_await lender_.scheduler().sleep_for(options_.duration);
    co_return in_memory() - before;
  }

  std::uint64_t in_memory() const {
    std::uint64_t changes = 0;
    for (const auto& table : tables_) changes += table->stats().changes;
    return changes;
  }

  Result<void> add_front_end(std::uint32_t index) {
    YONDER_TRY(client, lender_.add_client(options_.numa_aware));
    if (index == 0) {
      YONDER_TRY_VOID(HashTable::create(client.port, lender_.token(), {.log2_buckets = 13, .hash_seed = 7}));
    }
    YONDER_TRY(table,
               HashTable::open(*client.fabric, client.port, lender_.token(),
                               {.consolidate = options_.consolidate, .write_back = options_.write_back}));
    tables_.push_back(std::move(table));
    return {};
  }

  Result<void> fill() {
    const std::vector<std::byte> value(options_.value_bytes);
    for (std::uint64_t key = 0; key < options_.keys; ++key) {
      YONDER_TRY_VOID(tables_[key % tables_.size()]->put(bytes_of(key), value));
    }
    return {};
  }

  fabric::Task<void> write(HashTable& table) {
    std::vector<std::byte> value(options_.value_bytes);
    while (lender_.clock().now() < until_) {
      const std::uint64_t key = keys_.next(random_);
      const auto put = co_await table.async_put(bytes_of(key), value);
      if (!put) {
        failed_ = std::unexpected(put.error());
        co_return;
      }
    }
  }

  const SimTableOptions options_;
  PaperCluster& lender_;
  const Zipfian keys_;
  Prng random_;
  std::vector<std::unique_ptr<HashTable>> tables_;
  Instant until_;
  Result<void> failed_;
};

}  // namespace

Result<double> measure_sim_table(const SimTableOptions& options) {
  YONDER_TRY(lender, PaperCluster::create(options.seed, kTableBytes));
  return FrontEnds(options, *lender).measure();
}

}  // namespace yonder::bench
