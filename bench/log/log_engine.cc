#include "bench/log/log_engine.h"

#include <utility>

namespace yonder::bench {

Result<std::unique_ptr<LogEngine>> LogEngine::create(fabric::Fabric& fabric,
                                                     std::unique_ptr<structures::Log> log,
                                                     const EngineOptions& options) {
  std::unique_ptr<LogEngine> engine(new LogEngine);
  engine->options_ = options;
  engine->log_ = std::move(log);
  engine->rows_.resize(std::size_t{options.record_bytes} * options.batch);
  YONDER_TRY(region, fabric.register_memory({.memory = engine->rows_}));
  engine->region_ = std::move(region);
  for (std::uint32_t i = 0; i < options.batch; ++i) {
    engine->records_.push_back(
        std::span(engine->rows_).subspan(std::size_t{i} * options.record_bytes, options.record_bytes));
  }
  return engine;
}

fabric::Task<Result<void>> LogEngine::run(const Clock& clock, Instant until) {
  while (clock.now() < until) {
    const auto at = co_await log_->async_append_many(
        records_, {.batching = options_.batching, .key = region_.local_key()});
    if (at) {
      appended_ += records_.size();
      continue;
    }
    if (at.error() != ErrorCode::kResourceExhausted) co_return std::unexpected(at.error());
    // Full: the whole of it is old, so it is forgotten.
    const auto bounds = co_await log_->async_bounds();
    if (!bounds) co_return std::unexpected(bounds.error());
    const auto trimmed = co_await log_->async_trim(bounds->end);
    if (!trimmed) co_return std::unexpected(trimmed.error());
  }
  co_return Result<void>();
}

}  // namespace yonder::bench
