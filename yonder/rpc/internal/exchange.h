#pragma once
// One request being answered: who asked, and the buffer for the answer.
//
// An exchange is taken from its poller's pool when a request is accepted, before
// the handler runs, and returns when the answer's bytes are no longer needed. The
// pool is the bound on work and on memory: no exchange, no execution.
//
//   state      | handler answers      | fabric is done with the buffer
//   -----------+----------------------+-------------------------------
//   pooled     | –                    | –
//   executing  | answered             | –
//   answered   | –                    | pooled     (inline sends: at once)
//
// Concurrency: executing: whoever holds the responder; otherwise the poller.
// Lifetime: belongs to the poller's pool.

#include <cstddef>
#include <cstdint>
#include <span>

#include "yonder/base/error.h"
#include "yonder/base/time.h"
#include "yonder/fabric/completion_queue.h"
#include "yonder/fabric/types.h"
#include "yonder/rpc/wire.h"

namespace yonder::rpc {

struct Connection;
class Poller;
struct RegisteredMethod;

// The Operation is that of the answer's send.
class Exchange : public fabric::Operation {
 public:
  explicit Exchange(Done done) : Operation(done) {}

  std::span<std::byte> payload() const { return {buffer + kResponseHeaderBytes, payload_limit}; }
  // From whoever executes: the answer is complete. The exchange is the poller's again.
  void finish(ErrorCode code, std::size_t payload_bytes);

  Poller* poller = nullptr;
  std::byte* buffer = nullptr;
  Connection* connection = nullptr;
  const RegisteredMethod* method = nullptr;
  std::uint64_t request_id = 0;
  std::uint32_t payload_limit = 0;
  std::uint32_t payload_bytes = 0;
  ErrorCode status = ErrorCode::kOk;
  Instant started;           // Of a request whose time is taken; else the default.
  fabric::LocalPiece piece;  // What the posted WorkRequest points to.
};

}  // namespace yonder::rpc
