#pragma once
// A client as its poller sees it, and the table that finds it.
//
// Concurrency: the poller's thread, but for what says otherwise. Lifetime: a connection
// that is closed leaves the table at once and is freed when no exchange refers to it any
// more.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "yonder/base/error.h"
#include "yonder/fabric/endpoint.h"
#include "yonder/rpc/internal/exchange.h"

namespace yonder::rpc {

// An answer that found the endpoint's depth used up. Without an exchange it is a
// refusal: a header is all there is to it.
struct Unsent {
  Exchange* exchange = nullptr;
  std::uint64_t request_id = 0;
  ErrorCode status = ErrorCode::kOk;
};

struct Connection {
  std::unique_ptr<fabric::Endpoint> endpoint;
  std::uint32_t max_inline = 0;
  std::uint32_t credits = 0;    // In the client's hand: a request without one is a violation.
  std::uint32_t exchanges = 0;  // Taken from the pool for it, answered or not.
  std::uint32_t sends_since_signal = 0;
  TenantId tenant{0};
  std::atomic<bool> closed{false};  // Set by the poller; also read by who holds a responder.
  bool goodbye_sent = false;
  // At most one per credit: each is the answer to a request that took one.
  std::vector<Unsent> unsent;
};

// Finds a connection by its endpoint's id: open addressing on the id itself.
// Fabrics count their endpoints, so ids are nearly consecutive and the first look
// almost always hits; a general hash map would cost ten times as much, per request.
class ConnectionTable {
 public:
  explicit ConnectionTable(std::uint32_t max_connections);

  Connection* find(fabric::EndpointId id) const {
    for (std::size_t at = id.value() & mask_;; at = (at + 1) & mask_) {
      if (cells_[at].id == id) return cells_[at].connection.get();
      if (!cells_[at].used) return nullptr;
    }
  }
  bool full() const { return count_ == max_connections_; }
  std::size_t size() const { return count_; }

  // Requires !full(), and an id that is not in the table.
  Connection& insert(std::unique_ptr<Connection> connection);
  // Takes it out of the table. Requires that it is there.
  std::unique_ptr<Connection> remove(fabric::EndpointId id);

  // Calls `f` with every connection; `f` may not change the table.
  template <typename F>
  void for_each(F&& f) {
    for (Cell& cell : cells_) {
      if (cell.used) f(*cell.connection);
    }
  }

 private:
  struct Cell {
    fabric::EndpointId id{0};
    bool used = false;
    std::unique_ptr<Connection> connection;
  };

  const std::uint32_t max_connections_;
  std::size_t count_ = 0;
  std::size_t mask_;
  std::vector<Cell> cells_;  // At most half of them used, so every search ends soon.
};

}  // namespace yonder::rpc
