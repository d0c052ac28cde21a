#pragma once
// The test bed of the object API: a node and sessions to it, on some provider. One
// suite runs unchanged on all of them; what differs is here.
//
// Concurrency: the test's thread, unless a function says more.
// Lifetime: sessions go before the bed.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "yonder/client/session.h"
#include "yonder/fabric/fabric.h"
#include "yonder/fabric/scheduler.h"
#include "yonder/fabric/testbed/place.h"
#include "yonder/node/memory_keeper.h"
#include "yonder/node/server.h"
#include "yonder/testing/pattern.h"

namespace yonder::client::suite {

using fabric::testbed::Place;
using ::yonder::testing::number_in;
using ::yonder::testing::pattern;

struct Provider {
  const char* name;
  std::unique_ptr<Place> (*make)();
  node::Validator validator;
  bool use_windows = true;
  node::Remap remap = node::Remap::kTable;
  node::NicMapping mapping = node::NicMapping::kAuto;
  node::Correction correction = node::Correction::kScan;
};

inline std::string provider_name(const ::testing::TestParamInfo<Provider>& info) { return info.param.name; }
inline void PrintTo(const Provider& provider, std::ostream* out) { *out << provider.name; }

class ObjectSuite : public ::testing::TestWithParam<Provider> {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Starts the node with `options`, once per test. In virtual time it is driven by
  // the scheduler of the first session.
  void serve();
  // Ends the node in order and starts one with the same options at the same address.
  void restart();
  // A connected session. In virtual time all share one queue and scheduler.
  std::unique_ptr<Session> connect(SessionOptions session = {});
  bool is_virtual() const;

  // Objects of `bytes` of which all but every `keep`th are freed: something to compact.
  std::vector<ObjectPtr> thin_out(Session& session, std::size_t count, std::uint32_t bytes, std::size_t keep);

  node::NodeOptions options;
  node::MemoryKeeper keeper_;  // Of the node, if the test makes it one.
  std::unique_ptr<Place> place_;
  std::unique_ptr<fabric::CompletionQueue> queue_;  // In virtual time.
  std::unique_ptr<fabric::Scheduler> scheduler_;
  std::unique_ptr<node::Server> server_;
};

// The same for what takes a node with threads of its own.
class ThreadedSuite : public ObjectSuite {};

}  // namespace yonder::client::suite
