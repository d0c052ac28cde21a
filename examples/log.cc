// Sensors write readings into a shared log, a reader tails it, and the last values go into a
// page of remote memory by one vector write.
#include <array>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "examples/some_node.h"
#include "yonder/remote/buffer_pool.h"
#include "yonder/remote/vector_io.h"
#include "yonder/structures/log.h"

namespace {

using yonder::Result;
using yonder::structures::Log;

constexpr int kSensors = 3;
constexpr std::uint32_t kBatches = 20;
constexpr std::uint32_t kBatch = 32;  // readings that leave together
constexpr yonder::structures::LogOptions kLog{.slots = 1 << 14};

struct Reading {
  std::uint32_t sensor = 0;
  std::uint32_t number = 0;
  double celsius = 0;
};

std::string name_of(const char* what) {
  return std::string("examples/") + what + "-" + std::to_string(::getpid());
}

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

// A writer: knows the node's address and the log's name, and no other writer.
Result<void> write_readings(const std::string& address, std::uint32_t sensor) {
  YONDER_TRY(way, examples::Way::to(address));
  YONDER_TRY(memory, way.session().open(name_of("log")));
  YONDER_TRY(log, Log::open(way.fabric(), way.port(), memory));
  std::vector<Reading> readings(kBatch);
  std::vector<std::span<const std::byte>> records;
  for (const Reading& reading : readings) records.push_back(bytes_of(reading));
  for (std::uint32_t batch = 0; batch < kBatches; ++batch) {
    for (std::uint32_t i = 0; i < kBatch; ++i) {
      readings[i] = {.sensor = sensor, .number = batch * kBatch + i, .celsius = 20.0 + sensor + 0.01 * i};
    }
    // Two trips for all 32. When this returns they are in the log, in this order, and stay.
    YONDER_TRY_VOID(log->append_many(records));
  }
  return {};
}

// A reader: sees one sequence, the same as every other reader, and needs nobody's help.
Result<std::array<Reading, kSensors>> read_all(Log& log) {
  std::array<Reading, kSensors> last;
  const auto reader = log.reader({});
  for (std::uint64_t seen = 0; seen < kSensors * kBatches * kBatch;) {
    YONDER_TRY(records, reader->next());
    for (const auto& record : records) {
      Reading reading;
      if (record.bytes.size() != sizeof reading)
        return yonder::fail(yonder::ErrorCode::kCorrupt, "a reading");
      std::memcpy(&reading, record.bytes.data(), sizeof reading);
      last[reading.sensor] = reading;
      ++seen;
    }
    YONDER_TRY_VOID(log.trim(reader->position()));  // Its space comes round again.
  }
  return last;
}

// Many small pieces, one call: how they travel is chosen by what requests and copies cost.
Result<void> publish(examples::Way& way, const std::array<Reading, kSensors>& last) {
  YONDER_TRY(page, way.session().open_or_create(name_of("page"), 4096));
  YONDER_TRY(pool, yonder::remote::BufferPool::create(way.fabric()));
  yonder::remote::VectorIo io(way.port(), *pool);
  std::vector<yonder::remote::VectorPiece> pieces;
  for (const Reading& reading : last) {
    pieces.push_back({.local = yonder::fabric::LocalPiece::of(bytes_of(reading)),
                      .remote = page.at(reading.sensor * sizeof(Reading))});
  }
  YONDER_TRY_VOID(io.write(pieces));
  std::array<Reading, kSensors> found;
  YONDER_TRY_VOID(
      way.port().read(yonder::fabric::LocalPiece::of(std::as_writable_bytes(std::span(found))), page.at(0)));
  for (const Reading& reading : found) {
    std::printf("sensor %u: %.2f degrees after %u readings\n", reading.sensor, reading.celsius,
                reading.number + 1);
  }
  std::printf("%zu pieces in %llu request(s)\n", pieces.size(),
              static_cast<unsigned long long>(io.stats().requests));
  return way.session().remove(name_of("page"));
}

Result<void> run(int argc, char** argv) {
  YONDER_TRY(node, examples::SomeNode::find_or_start(argc, argv));
  YONDER_TRY(way, examples::Way::to(node.address()));
  YONDER_TRY(memory, way.session().create(name_of("log"), Log::bytes_for(kLog)));
  YONDER_TRY_VOID(Log::create(way.port(), memory, kLog));

  std::vector<Result<void>> written(kSensors);
  std::vector<std::thread> sensors;
  for (std::uint32_t i = 0; i < kSensors; ++i) {
    sensors.emplace_back([&, i] { written[i] = write_readings(node.address(), i); });
  }
  YONDER_TRY(log, Log::open(way.fabric(), way.port(), memory));
  const auto last = read_all(*log);
  for (std::thread& sensor : sensors) sensor.join();
  for (const Result<void>& each : written) YONDER_TRY_VOID(each);
  if (!last) return std::unexpected(last.error());
  YONDER_TRY_VOID(publish(way, *last));
  return way.session().remove(name_of("log"));
}

}  // namespace

int main(int argc, char** argv) {
  const Result<void> done = run(argc, argv);
  if (!done) std::fprintf(stderr, "%s\n", done.error().to_string().c_str());
  return done ? 0 : 1;
}
