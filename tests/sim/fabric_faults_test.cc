// Thousands of seeds of a small cluster in which everything goes wrong, and the
// guarantees of Endpoint that must hold all the same:
//   E1  requests of one endpoint take effect in post order
//   E2  every signalled request and every receive completes exactly once, not
//       long after its deadline
//   E3  after its completion a request touches its buffers no more
// A failure names its seed; --seed=N runs that one first.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "yonder/base/prng.h"
#include "yonder/fabric/sim/world.h"
#include "yonder/testing/effort.h"
#include "yonder/testing/sanitizer.h"
#include "yonder/testing/seed.h"

namespace yonder::fabric::sim {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kClients = 3;
constexpr std::size_t kSlotBytes = 1024;   // Of each client in the target's region.
constexpr std::size_t kBufferBytes = 512;  // Of each request.
constexpr std::byte kGarbage{0xee};        // What reused buffers hold: never to be seen elsewhere.
constexpr Duration kSlack = 20us;          // CPU of a thread that has a queue full of completions.

// A request or receive of ours, with its buffer, until the end of the run.
struct Asked {
  Op op = Op::kRead;
  bool signalled = true;
  std::uint64_t sequence = 0;
  Instant deadline;
  int completions = 0;
  ErrorCode status = ErrorCode::kOk;
  std::vector<std::byte> buffer;
  std::vector<std::byte> at_completion;
};

class Party {
 public:
  std::unique_ptr<CompletionQueue> queue;
  std::unique_ptr<Endpoint> endpoint;
  std::deque<Asked> asked;  // Addresses and indices stay.
  std::uint64_t next_sequence = 1;
  std::uint64_t last_value = 0;  // of the fetch-and-adds, in order of completion
};

class Chaos {
 public:
  explicit Chaos(std::uint64_t seed)
      : random_(seed),
        world_({.seed = seed, .hosts = kClients + 1, .host = {.nics = {{.model = rdma100g()}}}}),
        memory_(kClients * kSlotBytes) {
    world_.inject(random_rates());
    serve();
    for (std::uint32_t i = 0; i < kClients; ++i) connect(parties_[i], i + 1);
    schedule_faults();
  }

  ~Chaos() {
    for (auto& party : parties_) party.endpoint.reset();
    accepted_.clear();
    listener_.reset();
    region_ = Region();
  }

  void run() {
    for (int step = 0; step < 120 && !::testing::Test::HasFailure(); ++step) {
      act();
      world_.run_for(Duration(random_.below(30'000)));
      collect_all();
      check_slots();
    }
    finish();
  }

 private:
  FaultRates random_rates() {
    FaultRates rates;
    if (random_.chance(0.5)) rates.loss = random_.uniform_double() * 0.1;
    if (random_.chance(0.5)) rates.delay = random_.uniform_double() * 0.5;
    if (random_.chance(0.3)) rates.completion_error = random_.uniform_double() * 0.1;
    if (random_.chance(0.2)) rates.connection_break = random_.uniform_double() * 0.02;
    if (random_.chance(0.3)) rates.tear = random_.uniform_double();
    return rates;
  }

  Instant some_time() { return world_.clock().now() + Duration(random_.below(2'000'000)); }

  void schedule_faults() {
    const auto any_host = [this] { return static_cast<std::uint32_t>(random_.below(kClients + 1)); };
    if (random_.chance(0.3))
      world_.schedule({.at = some_time(), .kind = FaultKind::kBreak, .host = any_host()});
    if (random_.chance(0.3)) {
      world_.schedule({.at = some_time(), .kind = FaultKind::kPartition, .hosts = {any_host()}});
      world_.schedule({.at = some_time() + 1ms, .kind = FaultKind::kHeal});
    }
    if (random_.chance(0.2)) {
      world_.schedule({.at = some_time(), .kind = FaultKind::kSlow, .host = any_host(), .percent = 500});
    }
    if (random_.chance(0.2)) {
      const std::uint32_t host = any_host();
      world_.schedule({.at = some_time(), .kind = FaultKind::kCrash, .host = host});
      world_.schedule({.at = some_time() + 1ms, .kind = FaultKind::kRestart, .host = host});
    }
  }

  std::unique_ptr<CompletionQueue> create_queue(std::uint32_t host) {
    return std::move(*world_.host(host).fabric().create_completion_queue({}));
  }

  void serve() {
    server_.queue = create_queue(0);
    region_ =
        std::move(*world_.host(0).fabric().register_memory({.memory = memory_, .rights = Rights::kAll}));
    listener_ = std::move(*world_.host(0).fabric().listen(
        {.address = "sim://:7400", .completion_queues = {server_.queue.get()}}));
  }

  void connect(Party& party, std::uint32_t host) {
    party.queue = create_queue(host);
    auto endpoint = world_.host(host).fabric().connect({.address = "sim://host0:7400",
                                                        .endpoint = {.depth = 16, .receive_depth = 8},
                                                        .connect_timeout = 1ms},
                                                       *party.queue);
    if (endpoint) party.endpoint = std::move(*endpoint);  // A reply may be lost.
  }

  void act() {
    Party& party = parties_[random_.below(kClients)];
    switch (random_.below(20)) {
      case 0:
        while (auto endpoint = listener_->accept(Deadline::at(Instant::from_ns(1)))) {
          accepted_.push_back(std::move(*endpoint));
        }
        return;
      case 1:
        if (!accepted_.empty() && random_.chance(0.1)) accepted_.erase(accepted_.begin());
        return;
      case 2:
        if (party.endpoint && random_.chance(0.1)) party.endpoint->close();
        return;
      case 3:
        if (random_.chance(0.1)) (void)region_.rebind(memory_);
        return;
      case 4:
      case 5:
        return post_receives();
      default:
        if (party.endpoint) post_batch(party);
    }
  }

  void post_receives() {
    if (accepted_.empty()) return;
    Endpoint& endpoint = *accepted_[random_.below(accepted_.size())];
    Asked& asked = server_.asked.emplace_back();
    asked.op = Op::kReceive;
    asked.buffer.resize(kBufferBytes);
    const ReceiveRequest receive{.user_data = server_.asked.size() - 1,
                                 .buffer = LocalPiece::of(std::span(asked.buffer))};
    if (!endpoint.post_receive({&receive, 1})) server_.asked.pop_back();
  }

  void post_batch(Party& party) {
    std::vector<WorkRequest> batch(1 + random_.below(4));
    std::vector<LocalPiece> pieces(batch.size());
    const std::size_t first = party.asked.size();
    for (std::size_t i = 0; i < batch.size(); ++i) batch[i] = random_request(party, pieces[i]);
    const std::size_t accepted = party.endpoint->post(batch).value_or(0);
    while (party.asked.size() > first + accepted) party.asked.pop_back();
  }

  // Writes and sends carry the client's number and the request's sequence in every
  // word, so that any byte can be traced to its origin.
  WorkRequest random_request(Party& party, LocalPiece& piece) {
    const auto self = static_cast<std::uint64_t>(&party - parties_.data());
    const std::uint64_t slot = self * kSlotBytes;
    Asked& asked = party.asked.emplace_back();
    constexpr Op kOps[] = {Op::kRead, Op::kWrite, Op::kWrite, Op::kFetchAdd, Op::kSend};
    asked.op = kOps[random_.below(5)];
    asked.sequence = party.next_sequence++;
    asked.signalled = random_.chance(0.8);
    asked.deadline = world_.clock().now() + Duration(random_.below(3'000'000));
    asked.buffer.resize(8 * (1 + random_.below(kBufferBytes / 8)));
    const std::uint64_t word = self << 48 | asked.sequence;
    for (std::size_t i = 0; i < asked.buffer.size(); i += 8) std::memcpy(&asked.buffer[i], &word, 8);
    WorkRequest request{
        .op = asked.op, .user_data = party.asked.size() - 1, .deadline = Deadline::at(asked.deadline)};
    if (!asked.signalled) request.flags = RequestFlags::kUnsignalled;
    if (asked.op == Op::kFetchAdd) {
      request.remote = region_.token().at(slot);
      request.operand = 1;
      asked.buffer.clear();
      return request;
    }
    const bool inlined = carries(asked.op) && random_.chance(0.3);
    if (inlined) request.flags = request.flags | RequestFlags::kInline;
    piece = LocalPiece::of(std::span(asked.buffer));
    request.local = {&piece, 1};
    request.remote = region_.token().at(slot + 8);
    return request;
  }

  static bool carries(Op op) { return op == Op::kWrite || op == Op::kSend; }

  void collect_all() {
    for (Party& party : parties_) collect(party);
    collect(server_);
  }

  void collect(Party& party) {
    Completion batch[32];
    while (const std::size_t count = party.queue->poll(batch)) {
      for (const Completion& completion : std::span(batch).first(count)) ended(party, completion);
    }
  }

  void ended(Party& party, const Completion& completion) {
    ASSERT_LT(completion.user_data, party.asked.size());
    Asked& asked = party.asked[completion.user_data];
    ++asked.completions;
    asked.status = completion.status;
    ASSERT_EQ(asked.completions, 1) << "E2: completed twice";
    EXPECT_TRUE(asked.signalled || !completion.ok()) << "an unsignalled success";
    if (asked.op == Op::kFetchAdd && completion.ok()) {
      EXPECT_TRUE(party.last_value == 0 || completion.value >= party.last_value) << "E1: adds out of order";
      party.last_value = completion.value + 1;
    }
    if (asked.op == Op::kReceive && completion.ok()) check_message(asked, completion.length);
    // The buffer is ours again: whoever still reads it spreads garbage (E3).
    if (carries(asked.op)) std::ranges::fill(asked.buffer, kGarbage);
    asked.at_completion = asked.buffer;
  }

  void check_message(const Asked& asked, std::size_t length) {
    ASSERT_GE(length, 8u);
    std::uint64_t word = 0;
    std::memcpy(&word, asked.buffer.data(), 8);
    ASSERT_LT(word >> 48, kClients);
    for (std::size_t i = 0; i < length; i += 8) EXPECT_EQ(std::memcmp(&asked.buffer[i], &word, 8), 0);
  }

  // The first word written of each slot only grows: E1. No word is garbage: E3.
  void check_slots() {
    for (std::uint64_t client = 0; client < kClients; ++client) {
      const std::byte* const slot = memory_.data() + client * kSlotBytes;
      for (std::size_t i = 8; i < 8 + kBufferBytes; i += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, slot + i, 8);
        std::uint64_t& newest = newest_[client * kSlotBytes + i];
        ASSERT_GE(word, newest) << "E1: an older write overwrote a newer one";
        ASSERT_TRUE(word == 0 || word >> 48 == client) << "E3: bytes of a reused buffer at the target";
        newest = word;
      }
    }
  }

  void check_overdue(const Party& party) {
    for (const Asked& asked : party.asked) {
      if (asked.op == Op::kReceive || !asked.signalled || asked.completions > 0) continue;
      EXPECT_GT(asked.deadline + kSlack, world_.clock().now()) << "E2: overdue";
    }
  }

  void finish() {
    for (const Party& party : parties_) check_overdue(party);
    for (Party& party : parties_) {
      if (party.endpoint) party.endpoint->close();
    }
    for (const auto& endpoint : accepted_) endpoint->close();
    listener_->close();
    collect_all();
    world_.run_for(2s);
    collect_all();
    check_slots();
    for (const Party& party : parties_) check_ended(party);
    check_ended(server_);
    EXPECT_EQ(world_.requests_under_way(), 0u) << "requests leak";
  }

  void check_ended(const Party& party) {
    for (const Asked& asked : party.asked) {
      EXPECT_TRUE(asked.completions == 1 || !asked.signalled) << "E2: op " << static_cast<int>(asked.op);
      EXPECT_TRUE(asked.completions == 0 || asked.buffer == asked.at_completion)
          << "E3: touched after completion";
    }
  }

  Prng random_;
  World world_;
  std::vector<std::byte> memory_;
  Region region_;
  std::array<Party, kClients> parties_;
  Party server_;
  std::unique_ptr<Listener> listener_;
  std::vector<std::unique_ptr<Endpoint>> accepted_;
  std::map<std::uint64_t, std::uint64_t> newest_;
};

constexpr auto kSeeds = ::yonder::testing::scaled<std::uint64_t>(3000, 10);

TEST(FabricFaults, TheGuaranteesHoldForEverySeed) {
  for (std::uint64_t i = 0; i < kSeeds * ::yonder::testing::test_effort(); ++i) {
    const std::uint64_t seed = testing::test_seed() + i;
    SCOPED_TRACE("seed " + std::to_string(seed));
    Chaos chaos(seed);
    chaos.run();
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

}  // namespace
}  // namespace yonder::fabric::sim
