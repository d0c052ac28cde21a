// A client that writes and reads its objects until it is told to stop, over any
// restart of the node, and ends with an error if it ever reads what it must not:
// restart_test.cc.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>

#include <cstdio>
#include <string>
#include <vector>

#include "tests/e2e/ledger.h"
#include "yonder/base/prng.h"
#include "yonder/client/session.h"
#include "yonder/fabric/open/open.h"
#include "yonder/os/fd.h"
#include "yonder/os/mapping.h"
#include "yonder/testing/pattern.h"

namespace {

using yonder::ErrorCode;
using yonder::e2e::Ledger;
using yonder::e2e::LedgerCell;

volatile sig_atomic_t stopping = 0;

// The node was away: the call may have taken effect or not, the next one will tell.
bool is_loss(const yonder::Error& error) {
  return error == ErrorCode::kConnectionLost || error == ErrorCode::kStopping ||
         error == ErrorCode::kDeadlineExceeded;
}

int complain(const char* what, const LedgerCell& cell, const std::string& why) {
  fmt::print(stderr, "worker: {}: {} (acknowledged {}, attempted {})\n", what, why, cell.acknowledged.load(),
             cell.attempted.load());
  return 1;
}

int read_one(yonder::client::Session& session, Ledger& ledger, LedgerCell& cell, bool direct) {
  yonder::client::ObjectPtr object = cell.object();
  std::vector<std::byte> bytes(object.size());
  const auto read = direct ? session.direct_read(object, bytes) : session.read(object, bytes);
  if (!read && is_loss(read.error())) {
    ++ledger.losses;
    return 0;
  }
  if (!read) return complain("read", cell, read.error().to_string());
  const std::uint64_t number = yonder::testing::number_in(bytes);
  if (number != cell.acknowledged && number != cell.attempted)
    return complain("read", cell, fmt::format("found {}", number));
  // What was seen once stays.
  cell.acknowledged = number;
  cell.attempted = number;
  cell.low = object.low();
  ++ledger.operations;
  return 0;
}

int write_one(yonder::client::Session& session, Ledger& ledger, LedgerCell& cell, std::uint64_t number) {
  // A write whose fate is not known is settled first, by reading.
  if (cell.acknowledged != cell.attempted) return read_one(session, ledger, cell, false);
  yonder::client::ObjectPtr object = cell.object();
  cell.attempted = number;
  const auto written = session.write(object, yonder::testing::pattern(object.size(), number));
  if (!written && is_loss(written.error())) {
    ++ledger.losses;
    return 0;
  }
  if (!written) return complain("write", cell, written.error().to_string());
  cell.acknowledged = number;
  cell.low = object.low();
  ++ledger.operations;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  ::signal(SIGTERM, [](int) { stopping = 1; });
  auto fabric = yonder::fabric::open(argv[1]);
  if (!fabric) return 3;
  auto session =
      yonder::client::Session::connect(**fabric, {.address = argv[1], .timeout = std::chrono::seconds(10)});
  if (!session) return 4;
  const auto file = yonder::os::Fd::open(argv[2], O_RDWR);
  if (!file) return 5;
  const auto mapping = yonder::os::Mapping::of_file(
      *file, {.bytes = sizeof(Ledger), .protection = yonder::os::Protection::kReadWrite});
  if (!mapping) return 6;
  auto& ledger = *reinterpret_cast<Ledger*>(mapping->data());
  yonder::Prng random(std::hash<std::string>()(argv[2]));
  while (stopping == 0) {
    LedgerCell& cell = ledger.cells[random.below(Ledger::kCells)];
    const std::uint64_t dice = random.below(4);
    const int code = dice < 2 ? write_one(**session, ledger, cell, random() >> 1)
                              : read_one(**session, ledger, cell, dice == 2);
    if (code != 0) return code;
  }
  return 0;
}
