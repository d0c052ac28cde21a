// Flags and environment variables are a user's bytes: one per line of the input,
// lines with a leading '-' are arguments, others variables.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "yonder/base/config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  yonder::ConfigSchema schema;
  schema.add<std::int64_t>({.name = "fabric.depth",
                            .fallback = 128,
                            .help = "requests",
                            .min = 1,
                            .max = 4096,
                            .alias = "--depth"});
  schema.add<bool>({.name = "fabric.tls", .fallback = false, .help = "encrypt"});
  schema.add<yonder::Bytes>({.name = "node.memory", .fallback = yonder::Bytes(1 << 20), .help = "limit"});
  schema.add<yonder::Duration>(
      {.name = "node.slice", .fallback = std::chrono::microseconds(50), .help = "slice"});
  schema.add<std::string>({.name = "node.name", .fallback = "a", .help = "name"});
  yonder::ConfigSources sources;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string line(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    // A file the fuzzer names could be anything on the machine.
    if (line.find("onfig") != std::string::npos || line.find("ONFIG") != std::string::npos) continue;
    (line.starts_with("-") ? sources.arguments : sources.environment).push_back(line);
  }
  (void)yonder::load_config(schema, sources);
  return 0;
}
