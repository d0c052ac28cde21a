#pragma once
// The fixture of the log's tests: a log at the start of the bed's memory.
//
// Concurrency: the test's thread. Lifetime: logs and readers go before the bed.

#include <memory>
#include <string>
#include <vector>

#include "yonder/remote/suite/bed.h"
#include "yonder/structures/log.h"
#include "yonder/structures/suite/text.h"
#include "yonder/testing/patience.h"

namespace yonder::structures::suite {

class LogSuite : public remote::suite::RemoteSuite {
 protected:
  // A test that means its lease sets another than the default. For the others an append
  // must not give its slots up because this machine stood still (L4).
  void make(LogOptions options) {
    if (options.lease == LogOptions().lease) options.lease = ::yonder::testing::kPatience;
    const auto made = Log::create(connect().port(), token(), options);
    ASSERT_TRUE(made) << made.error();
  }
  std::unique_ptr<Log> open(remote::suite::Client& client) {
    return Log::open(place_->client_fabric(), client.port(), token()).value();
  }
  std::unique_ptr<Log> open() { return open(connect()); }

  const Clock& clock() const { return place_->client_fabric().clock(); }
  Deadline within(Duration duration) const { return Deadline::after(clock(), duration); }

  // Reads until `count` records came.
  std::vector<std::string> read(LogReader& reader, std::size_t count) {
    std::vector<std::string> out;
    while (out.size() < count) {
      const auto records = reader.next(within(::yonder::testing::kPatience));
      EXPECT_TRUE(records) << records.error();
      if (!records) break;
      for (const LogRecord& record : *records) out.push_back(text_of(record.bytes));
    }
    return out;
  }
};

}  // namespace yonder::structures::suite
