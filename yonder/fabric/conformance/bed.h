#pragma once
// The test bed of the conformance suite: a target and an initiator on some
// provider. One suite runs unchanged on all providers; what differs is here.
//
// A provider's conformance_test.cc links yonder::fabric_conformance and says:
//
//   INSTANTIATE_TEST_SUITE_P(Tcp, Conformance, ::testing::Values(Provider{"plain", make_tcp_bed}),
//   provider_name);
//
// Concurrency: one thread. Lifetime: a bed outlives what its fabrics made.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "yonder/fabric/fabric.h"
#include "yonder/testing/patience.h"

namespace yonder::fabric::conformance {

// Zeroed, page-aligned memory that the bed's provider would use in earnest (shm:
// a whole memfd, with its backing).
struct Memory {
  std::span<std::byte> bytes;
  std::optional<Backing> backing;
  std::shared_ptr<void> owner;
};

// A word that an atomic of a peer may change. An atomic load: on shm and tcp a
// thread of this process does the peer's atomics, and ThreadSanitizer cannot see
// that the completion came after them.
inline std::uint64_t load_word(std::span<std::byte> memory, std::size_t offset) {
  return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(memory.data() + offset)).load();
}

class Bed {
 public:
  virtual ~Bed() = default;
  virtual Fabric& target() = 0;
  virtual Fabric& initiator() = 0;  // May be the target's fabric.
  // An address nobody listens on yet.
  virtual std::string listen_address() = 0;
  virtual Memory allocate(std::size_t bytes) = 0;
};

struct Provider {
  const char* name;
  std::unique_ptr<Bed> (*make_bed)();
};

inline std::string provider_name(const ::testing::TestParamInfo<Provider>& info) { return info.param.name; }
inline void PrintTo(const Provider& provider, std::ostream* out) { *out << provider.name; }

// A connected pair, made in SetUp(): `client` talks to `server`, each on its own
// completion queue; `region` is kBytes of the target's memory with all rights.
class Conformance : public ::testing::TestWithParam<Provider> {
 protected:
  static constexpr std::size_t kBytes = 64 * 1024;

  void SetUp() override;
  void TearDown() override;

  Deadline soon(Duration duration = ::yonder::testing::kPatience) const {
    return Deadline::after(bed_->initiator().clock(), duration);
  }
  Region register_region(const Memory& memory, Rights rights);
  // A second connection to the same listener; null and a test failure if refused.
  std::unique_ptr<Endpoint> connect(EndpointOptions options = {});
  std::unique_ptr<Endpoint> accept();
  // Polls until `count` raw completions came or the time is up.
  std::vector<Completion> collect(CompletionQueue& queue, std::size_t count,
                                  Duration limit = ::yonder::testing::kPatience);

  // A request on scratch memory of the fixture; the next call reuses it.
  WorkRequest request(Op op, RemoteAddress remote, std::size_t length = 8);
  // Whether `got` is how this provider says `expected`: a NIC says only that an
  // access was refused, software says why.
  bool is_refusal(ErrorCode got, ErrorCode expected) const;
  // Posts a good read, the bad request and another good read in one doorbell;
  // only the bad one may fail, with the expected code, and all goes on (E4).
  void expect_only_it_fails(WorkRequest bad, ErrorCode expected);
  void expect_healthy();

  std::unique_ptr<Bed> bed_;
  Memory memory_;
  std::vector<std::byte> scratch_;
  LocalPiece scratch_piece_;
  Region region_;
  RegionToken token_;
  std::unique_ptr<CompletionQueue> client_queue_;
  std::unique_ptr<CompletionQueue> server_queue_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Endpoint> client_;
  std::unique_ptr<Endpoint> server_;
};

}  // namespace yonder::fabric::conformance
