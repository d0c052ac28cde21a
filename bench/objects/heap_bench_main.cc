// heap_bench [reads|alloc|merge|packing|overhead]...: the figures of docs/node.md, as JSON.
#include <fmt/format.h>

#include <string_view>

#include "bench/objects/heap_bench.h"
#include "bench/objects/jemalloc.h"

namespace {

using namespace yonder;         // NOLINT: a program of one page.
using namespace yonder::bench;  // NOLINT

Result<void> run(std::string_view name, Report& report) {
  if (name == "reads") {
    for (const std::uint32_t bytes : {64u, 256u, 2048u}) {
      YONDER_TRY_VOID(measure_heap_reads({.object_bytes = bytes}, report));
    }
  } else if (name == "alloc") {
    for (const std::uint32_t bytes : {32u, 64u, 256u, 2048u}) {
      for (const std::uint32_t live : {0u, 1u, 1000u}) {
        YONDER_TRY_VOID(measure_heap_alloc({.object_bytes = bytes, .live = live}, report));
      }
    }
  } else if (name == "merge") {
    YONDER_TRY_VOID(measure_heap_merge({}, report));
  } else if (name == "packing") {
    for (const std::uint32_t bytes : {32u, 256u, 2048u, 8192u}) {
      for (const double freed : {0.4, 0.5, 0.6, 0.7, 0.8, 0.9}) {
        const std::uint64_t objects = bytes > 1000 ? 50'000 : 500'000;
        YONDER_TRY_VOID(
            measure_heap_packing({.object_bytes = bytes, .objects = objects, .freed = freed}, report));
      }
    }
  } else if (name == "overhead") {
    for (const std::uint32_t bytes : {32u, 256u, 2048u, 8192u}) {
      const std::uint64_t objects = bytes > 1000 ? 50'000 : 500'000;
      YONDER_TRY_VOID(measure_heap_overhead({.object_bytes = bytes, .objects = objects}, report));
    }
  } else {
    return fail(ErrorCode::kInvalidArgument, "heap_bench: reads, alloc, merge, packing or overhead");
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  make_room_for_jemalloc();
  Report report("heap");
  for (int i = 1; i < argc; ++i) {
    if (const auto done = run(argv[i], report); !done) {
      fmt::print(stderr, "{}\n", done.error().to_string());
      return 1;
    }
  }
  fmt::print("{}\n{}\n", report.to_text(), report.to_json());
  return 0;
}
