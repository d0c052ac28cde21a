#pragma once
// The memory node that an example uses: the one whose address is on the command line, or
// one of its own in this process, so that every example runs by itself.
//
//   build/release/examples/log                        # its own node
//   yonderd --listen tcp://127.0.0.1:7400 --extents 1GiB &
//   build/release/examples/log tcp://127.0.0.1:7400   # somebody else's
//
// Concurrency: one thread; others connect to address() with fabrics of their own.
// Lifetime: what was made with its fabric goes before it.

#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

#include "yonder/base/result.h"
#include "yonder/client/extent_session.h"
#include "yonder/fabric/open/open.h"
#include "yonder/node/server.h"
#include "yonder/remote/port.h"

namespace examples {

class SomeNode {
 public:
  static yonder::Result<SomeNode> find_or_start(int argc, char** argv) {
    SomeNode out;
    out.address_ = argc > 1 ? argv[1] : "shm:yonder-example-" + std::to_string(::getpid());
    YONDER_TRY(fabric, yonder::fabric::open(out.address_));
    out.fabric_ = std::move(fabric);
    if (argc > 1) return out;
    YONDER_TRY(server, yonder::node::Server::create(
                           {.ports = {{.fabric = out.fabric_.get(), .address = out.address_}}}));
    out.server_ = std::move(server);
    out.address_ = out.server_->address();
    return out;
  }

  const std::string& address() const { return address_; }

 private:
  SomeNode() = default;

  std::string address_;
  std::unique_ptr<yonder::fabric::Fabric> fabric_;
  std::unique_ptr<yonder::node::Server> server_;  // Null: it is somebody else's.
};

// One thread's way to the node: a fabric, a session, and the port that structures stand on.
class Way {
 public:
  static yonder::Result<Way> to(const std::string& address) {
    Way out;
    YONDER_TRY(fabric, yonder::fabric::open(address));
    out.fabric_ = std::move(fabric);
    YONDER_TRY(session, yonder::client::ExtentSession::connect(*out.fabric_, {.address = address}));
    out.session_ = std::move(session);
    return out;
  }

  yonder::fabric::Fabric& fabric() { return *fabric_; }
  yonder::client::ExtentSession& session() { return *session_; }
  yonder::remote::Port port() { return {session_->endpoint(), session_->scheduler()}; }

 private:
  Way() = default;

  std::unique_ptr<yonder::fabric::Fabric> fabric_;
  std::unique_ptr<yonder::client::ExtentSession> session_;
};

}  // namespace examples
