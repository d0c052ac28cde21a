#include "apps/preload/runtime.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "apps/preload/processes.h"
#include "apps/preload/refusals.h"
#include "apps/preload/signals.h"
#include "yonder/base/log.h"
#include "yonder/base/units.h"

namespace yonder::preload {

namespace internal {
std::atomic<Runtime*> runtime_pointer{nullptr};
}  // namespace internal

namespace {

thread_local constinit bool thread_is_internal = false;

// ---------------------------------------------------------------- callers

struct TextRange {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};
// Of this library, the C library and the dynamic linker. Written before main().
std::array<TextRange, 8> near_callers;
std::size_t near_caller_count = 0;

bool is_near_library(std::string_view path, std::uintptr_t begin, std::uintptr_t end) {
  const auto here = reinterpret_cast<std::uintptr_t>(&is_near_library);
  if (here >= begin && here < end) return true;
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return name.starts_with("libc.so.") || name.starts_with("ld-linux");
}

int note_library(dl_phdr_info* info, std::size_t, void*) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD || (header.p_flags & PF_X) == 0) continue;
    const std::uintptr_t begin = info->dlpi_addr + header.p_vaddr;
    const std::uintptr_t end = begin + header.p_memsz;
    if (near_caller_count < near_callers.size() && is_near_library(info->dlpi_name, begin, end)) {
      near_callers[near_caller_count++] = {.begin = begin, .end = end};
    }
  }
  return 0;
}

// ---------------------------------------------------------------- configuration

[[noreturn]] void refuse(const char* what, const std::string& why) {
  std::fprintf(stderr, "yonder: far memory cannot be had: %s: %s\n", what, why.c_str());
  ::_exit(127);
}

std::uint64_t number_of(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr) return otherwise;
  char* end = nullptr;
  errno = 0;
  const std::uint64_t value = std::strtoull(text, &end, 10);
  if (errno != 0 || end == text || *end != '\0') refuse(name, "is no number");
  return value;
}

std::string text_of(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

// Private memory of the process beside the space: heap of the C library, stacks, our tables.
Bytes other_memory() {
  // The thread that asks is the space's own.
  thread_is_internal = true;
  const Runtime* far = runtime();
  std::array<char, 128> text{};
  const int fd = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (fd < 0 || far == nullptr) return Bytes(0);
  const ssize_t length = ::read(fd, text.data(), text.size() - 1);
  ::close(fd);
  unsigned long resident = 0;
  unsigned long shared = 0;
  if (length <= 0 || std::sscanf(text.data(), "%*u %lu %lu", &resident, &shared) != 2) return Bytes(0);
  const std::uint64_t own = (resident - shared) * heap::kPageBytes;
  const std::uint64_t space = far->space->stats().resident_bytes;
  return Bytes(own > space ? own - space : 0);
}

void write_stats(const Runtime& far, const std::string& path) {
  const heap::PagedSpaceStats stats = far.space->stats();
  std::FILE* file = std::fopen(path.c_str(), "ae");
  if (file == nullptr) return;
  std::fprintf(file,
               "{\"pid\":%d,\"resident_bytes\":%lu,\"budget_bytes\":%lu,\"faults\":%lu,\"write_faults\":%lu,"
               "\"fetched_pages\":%lu,\"ahead_pages\":%lu,\"fresh_pages\":%lu,\"left_pages\":%lu,"
               "\"written_pages\":%lu,\"rescued_pages\":%lu,\"stalls\":%lu,\"failures\":%lu}\n",
               ::getpid(), stats.resident_bytes, stats.budget_bytes, stats.faults, stats.write_faults,
               stats.fetched_pages, stats.ahead_pages, stats.fresh_pages, stats.left_pages,
               stats.written_pages, stats.rescued_pages, stats.stalls, stats.failures);
  std::fclose(file);
}

std::string first_line(const char* path) {
  std::array<char, 512> text{};
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  const ssize_t length = ::read(fd, text.data(), text.size() - 1);
  ::close(fd);
  return {text.data(), length > 0 ? static_cast<std::size_t>(length) : 0};
}

// Of this process and no other, and the same after an exec, which ends no process and so
// leaves its extent behind: the next program takes it over.
std::string extent_name() {
  const std::string boot = first_line("/proc/sys/kernel/random/boot_id").substr(0, 8);
  // The 22nd field is when the process started; the second may contain spaces.
  const std::string stat = first_line("/proc/self/stat");
  std::size_t at = stat.rfind(')');
  for (int field = 2; field < 22 && at != std::string::npos; ++field) at = stat.find(' ', at + 1);
  const std::string started =
      at == std::string::npos ? "" : stat.substr(at + 1, stat.find(' ', at + 1) - at - 1);
  return "run-" + boot + "-" + std::to_string(::getpid()) + "-" + started;
}

void start() {
  const std::uint64_t far_bytes = number_of("YONDER_FAR_BYTES", 0);
  if (far_bytes == 0) return;
  const InternalScope internal;
  ::dl_iterate_phdr(&note_library, nullptr);
  const std::uint64_t local = number_of("YONDER_LOCAL_BYTES", far_bytes / 4);
  const std::uint64_t bytes = os::round_up(far_bytes, heap::kPageBytes);
  const std::string node = text_of("YONDER_NODE");
  // Before the store makes threads: what they start must not have them either.
  if (const Result<void> refused = refuse_asynchronous_calls(); !refused)
    refuse("a filter of system calls", refused.error().to_string());
  auto store = heap::SlotStore::open({.node = node,
                                      .name = node.empty() ? "" : extent_name(),
                                      .adopt = true,
                                      .bytes = Bytes(heap::PagedSpace::store_bytes(bytes))});
  if (!store) refuse("the store", store.error().to_string());
  take_bus_signal();
  auto* far = new Runtime;
  far->process = ::getpid();
  auto space = heap::PagedSpace::create(
      {.bytes = Bytes(bytes),
       .budget = Bytes(local),
       .patience = std::chrono::milliseconds(number_of("YONDER_PATIENCE_MS", 30'000)),
       .other_memory = &other_memory},
      std::move(*store));
  if (!space) refuse("the space", space.error().to_string());
  far->space = std::move(*space);
  auto arena = heap::PagedArena::create(*far->space);
  if (!arena) refuse("the arena", arena.error().to_string());
  far->arena = std::move(*arena);
  internal::runtime_pointer.store(far, std::memory_order_release);
  watch_forks();
}

__attribute__((constructor)) void on_load() { start(); }

__attribute__((destructor)) void on_exit() {
  Runtime* far = runtime();
  if (far == nullptr) return;
  const InternalScope internal;
  if (const std::string path = text_of("YONDER_FAR_STATS"); !path.empty()) write_stats(*far, path);
  if (far->process == ::getpid()) far->space->abandon();
}

}  // namespace

bool is_program(const void* caller) {
  if (thread_is_internal) return false;
  const auto address = reinterpret_cast<std::uintptr_t>(caller);
  for (std::size_t i = 0; i < near_caller_count; ++i) {
    if (address >= near_callers[i].begin && address < near_callers[i].end) return false;
  }
  return true;
}

InternalScope::InternalScope() : before_(std::exchange(thread_is_internal, true)) {}
InternalScope::~InternalScope() { thread_is_internal = before_; }

}  // namespace yonder::preload
