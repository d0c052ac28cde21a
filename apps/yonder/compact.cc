#include "apps/yonder/compact.h"

#include <fmt/format.h>
#include <httplib.h>

#include <nlohmann/json.hpp>

#include "yonder/base/units.h"

namespace yonder::apps {
namespace {

using Json = nlohmann::json;

constexpr const char* kPath = "/api/v1/compaction";

Result<Json> parse(const httplib::Result& answer) {
  if (!answer) return fail(ErrorCode::kConnectionRefused, "ask yonderd's admin endpoint");
  Json json = Json::parse(answer->body, nullptr, /*allow_exceptions=*/false);
  if (answer->status != 200 || !json.is_object()) {
    return fail(ErrorCode::kProtocolMismatch, "answer of the admin endpoint", answer->status);
  }
  return json;
}

void print_plan(const Json& json) {
  std::uint64_t bytes = 0;
  for (const Json& one : json.value("would_free", Json::array())) {
    bytes += one.value("bytes_freed", std::uint64_t{0});
    fmt::print("class {:>3}: {} of {} frames, {}, by moving {} objects\n", one.value("class", 0),
               one.value("frames_freed", 0), one.value("frames", 0),
               to_string(Bytes(one.value("bytes_freed", std::uint64_t{0}))), one.value("objects_moved", 0));
  }
  fmt::print("would free {}\n", to_string(Bytes(bytes)));
}

}  // namespace

Result<void> run_compact(const CompactOptions& options) {
  httplib::Client client("http://" + options.admin);
  client.set_connection_timeout(std::chrono::seconds(5));
  // All of a large node may take a while: it goes in slices.
  client.set_read_timeout(std::chrono::minutes(10));
  if (options.dry_run) {
    YONDER_TRY(plan, parse(client.Get(kPath)));
    print_plan(plan);
    return {};
  }
  YONDER_TRY(done, parse(client.Post(kPath)));
  fmt::print("freed {}\n", to_string(Bytes(done.value("bytes_freed", std::uint64_t{0}))));
  return {};
}

}  // namespace yonder::apps
