// A process that works in one structure of a node until it is told to stop, is killed, or
// meets an error: structures_test.cc.
//
//   structures_worker MODE ADDRESS FILE WORKER
//
// Exit codes: 0 told to stop, kLost the node was lost, 1 anything that must not be.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>

#include <array>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/promises.h"
#include "yonder/base/prng.h"
#include "yonder/client/extent_session.h"
#include "yonder/fabric/open/open.h"
#include "yonder/os/fd.h"
#include "yonder/os/mapping.h"
#include "yonder/remote/lock.h"
#include "yonder/structures/hash_table.h"
#include "yonder/structures/log.h"
#include "yonder/testing/pattern.h"

namespace yonder::e2e {
namespace {

volatile sig_atomic_t stopping = 0;

struct Worker {
  fabric::Fabric& fabric;
  client::ExtentSession& session;
  Promises& promises;
  std::uint64_t number;

  remote::Port port() const { return {session.endpoint(), session.scheduler(), std::chrono::seconds(2)}; }
  fabric::RegionToken extent(const char* name) const { return session.open(name).value(); }
};

int complain(const char* what, const Error& error) {
  if (error == ErrorCode::kConnectionLost || error == ErrorCode::kDeadlineExceeded ||
      error == ErrorCode::kServerReplaced) {
    return kLost;
  }
  fmt::print(stderr, "worker: {}: {}\n", what, error.to_string());
  return 1;
}

// The next number, again and again, each in a record of another length.
int append_records(const Worker& worker) {
  const auto log = structures::Log::open(worker.fabric, worker.port(), worker.extent(kLogExtent));
  if (!log) return complain("open", log.error());
  Promise& promise = worker.promises.keys[0];
  while (stopping == 0) {
    const std::uint64_t count = promise.acknowledged + 1;
    promise.attempted = count;
    const auto at = (*log)->append(testing::pattern(8 + count % 300, number_of(worker.number, count)));
    if (at) {
      promise.acknowledged = count;
      ++worker.promises.operations;
    } else if (at.error() == ErrorCode::kResourceExhausted) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));  // Until the reader has trimmed.
    } else {
      return complain("append", at.error());
    }
  }
  return 0;
}

// Dies between the two steps of an append, which a kill from outside seldom meets. (The
// first step adds to the log's tail, a word of the layout that log.h shows.)
int reserve_and_die(const Worker& worker) {
  const fabric::RegionToken token = worker.extent(kLogExtent);
  const auto log = structures::Log::open(worker.fabric, worker.port(), token);
  if (!log) return complain("open", log.error());
  const auto slot = worker.port().fetch_add(token.at(structures::internal::LogShape::kTailOffset), 3);
  if (!slot) return complain("reserve", slot.error());
  return ::raise(SIGKILL);
}

// A number, or 0 for a key that is not there.
Result<std::uint64_t> look(structures::HashTable& table, std::span<const std::byte> key) {
  std::vector<std::byte> value;
  const auto found = table.find(key, value);
  if (found) return testing::number_in(value);
  if (found.error() == ErrorCode::kNotFound) return std::uint64_t{0};
  return std::unexpected(found.error());
}

// Puts and erases its own keys; what it is not sure of, having come after one that died, it
// looks at first.
int change_keys(const Worker& worker) {
  const auto table = structures::HashTable::open(worker.fabric, worker.port(), worker.extent(kTableExtent));
  if (!table) return complain("open", table.error());
  Prng random(worker.number);
  std::uint64_t count = worker.promises.operations;
  while (stopping == 0) {
    const std::uint64_t key = random.below(Promises::kKeys);
    const std::uint64_t name = key_name(worker.number, key);
    const auto bytes = std::as_bytes(std::span(&name, 1));
    Promise& promise = worker.promises.keys[key];
    if (promise.attempted != promise.acknowledged || random.chance(0.2)) {
      const auto found = look(**table, bytes);
      if (!found) return complain("find", found.error());
      if (*found != promise.acknowledged && *found != promise.attempted) {
        fmt::print(stderr, "worker: key {}: found {}, acknowledged {}, attempted {}\n", key, *found,
                   promise.acknowledged.load(), promise.attempted.load());
        return 1;
      }
      promise.acknowledged = *found;
    }
    const bool erases = promise.acknowledged != 0 && random.chance(0.2);
    promise.attempted = erases ? 0 : number_of(worker.number, ++count);
    const auto done = erases ? (*table)->erase(bytes)
                             : (*table)->put(bytes, testing::pattern(8 + count % 100, promise.attempted));
    if (!done) return complain("change", done.error());
    promise.acknowledged = promise.attempted.load();
    ++worker.promises.operations;
  }
  const auto closed = (*table)->close();
  return closed ? 0 : complain("close", closed.error());
}

// Counts under the lock. The published numbers form one sequence, whoever dies (F1-F3).
int count_under_lock(const Worker& worker) {
  const fabric::RegionToken token = worker.extent(kLockExtent);
  remote::Lock lock(worker.port(), token.at(kLockWord), {.seed = worker.number});
  Promise& promise = worker.promises.keys[0];
  while (stopping == 0) {
    auto lease = lock.lock();
    if (!lease) return complain("lock", lease.error());
    const auto value = lock.fence(*lease, token.at(kCountWord));
    if (value) {
      promise.attempted = promise.acknowledged + 1;
      const auto published = lock.publish(*lease, token.at(kCountWord), *value, *value + 1);
      if (published) {
        promise.acknowledged = promise.attempted.load();
        ++worker.promises.operations;
      } else if (published.error() != ErrorCode::kLeaseLost) {
        return complain("publish", published.error());
      }
    } else if (value.error() != ErrorCode::kLeaseLost) {
      return complain("fence", value.error());
    }
    const auto unlocked = lock.unlock(*lease);
    if (!unlocked && unlocked.error() != ErrorCode::kLeaseLost) return complain("unlock", unlocked.error());
  }
  return 0;
}

int lock_and_die(const Worker& worker) {
  remote::Lock lock(worker.port(), worker.extent(kLockExtent).at(kLockWord), {.seed = worker.number});
  const auto lease = lock.lock();
  if (!lease) return complain("lock", lease.error());
  return ::raise(SIGKILL);
}

int run(const std::string& mode, const char* address, const char* path, std::uint64_t number) {
  auto fabric = fabric::open(address);
  if (!fabric) return complain("fabric", fabric.error());
  auto session = client::ExtentSession::connect(**fabric, {.address = address});
  if (!session) return complain("connect", session.error());
  const auto file = os::Fd::open(path, O_RDWR);
  if (!file) return complain("promises", file.error());
  const auto mapping =
      os::Mapping::of_file(*file, {.bytes = sizeof(Promises), .protection = os::Protection::kReadWrite});
  if (!mapping) return complain("promises", mapping.error());
  const Worker worker{.fabric = **fabric,
                      .session = **session,
                      .promises = *reinterpret_cast<Promises*>(mapping->data()),
                      .number = number};
  const std::map<std::string, int (*)(const Worker&)> modes = {{"log", append_records},
                                                               {"hole", reserve_and_die},
                                                               {"table", change_keys},
                                                               {"lock", count_under_lock},
                                                               {"holder", lock_and_die}};
  return modes.at(mode)(worker);
}

}  // namespace
}  // namespace yonder::e2e

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  ::signal(SIGTERM, [](int) { yonder::e2e::stopping = 1; });
  return yonder::e2e::run(argv[1], argv[2], argv[3], std::stoull(argv[4]));
}
