#pragma once
// A transaction engine: appends batches of records to a log, one batch after the other.
//
// Concurrency: the thread of its port. Lifetime: fabric and port outlive it.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "yonder/base/result.h"
#include "yonder/fabric/fabric.h"
#include "yonder/remote/port.h"
#include "yonder/structures/log.h"

namespace yonder::bench {

struct EngineOptions {
  std::uint32_t record_bytes = 64;
  std::uint32_t batch = 1;
  structures::LogBatching batching = structures::LogBatching::kPack;
};

class LogEngine {
 public:
  // Its records lie in memory that is registered, as a table's rows would.
  static Result<std::unique_ptr<LogEngine>> create(fabric::Fabric& fabric,
                                                   std::unique_ptr<structures::Log> log,
                                                   const EngineOptions& options);

  // Appends until `until` or an error; counts the records.
  fabric::Task<Result<void>> run(const Clock& clock, Instant until);
  std::uint64_t appended() const { return appended_; }

 private:
  LogEngine() = default;

  EngineOptions options_;
  std::vector<std::byte> rows_;
  fabric::Region region_;  // Over rows_; goes first.
  std::vector<std::span<const std::byte>> records_;
  std::unique_ptr<structures::Log> log_;
  std::uint64_t appended_ = 0;
};

}  // namespace yonder::bench
