#include "yonder/rpc/internal/connection.h"

#include <bit>
#include <utility>

#include "yonder/base/check.h"

namespace yonder::rpc {

ConnectionTable::ConnectionTable(std::uint32_t max_connections)
    : max_connections_(max_connections),
      mask_(std::bit_ceil(std::size_t{max_connections} * 2) - 1),
      cells_(mask_ + 1) {}

Connection& ConnectionTable::insert(std::unique_ptr<Connection> connection) {
  YONDER_CHECK(!full(), "the listener keeps to max_connections");
  const fabric::EndpointId id = connection->endpoint->id();
  std::size_t at = id.value() & mask_;
  while (cells_[at].used) at = (at + 1) & mask_;
  cells_[at] = {.id = id, .used = true, .connection = std::move(connection)};
  ++count_;
  return *cells_[at].connection;
}

std::unique_ptr<Connection> ConnectionTable::remove(fabric::EndpointId id) {
  std::size_t hole = id.value() & mask_;
  while (cells_[hole].id != id || !cells_[hole].used) hole = (hole + 1) & mask_;
  std::unique_ptr<Connection> removed = std::move(cells_[hole].connection);
  --count_;
  // Close the gap: whatever stands behind it and does not stand at its own place
  // moves up, so that a search never stops too early.
  for (std::size_t at = (hole + 1) & mask_; cells_[at].used; at = (at + 1) & mask_) {
    const std::size_t home = cells_[at].id.value() & mask_;
    if (((at - home) & mask_) < ((at - hole) & mask_)) continue;
    cells_[hole] = std::move(cells_[at]);
    hole = at;
  }
  cells_[hole] = {};
  return removed;
}

}  // namespace yonder::rpc
