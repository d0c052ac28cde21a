// Functions that a memory node runs for offload_test.cc: useful ones, and every kind of bad one.
#include "tests/e2e/offload_functions.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <vector>

#include "yonder/offload/function.h"

using yonder::e2e::ListNode;
using yonder::e2e::Numbers;
using yonder::offload::Output;

namespace {

std::uint64_t now_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000 + static_cast<std::uint64_t>(now.tv_nsec) / 1'000'000;
}

// ---------------------------------------------------------------- useful

std::uint64_t sum(const Numbers& of) {
  std::uint64_t out = 0;
  for (std::uint64_t i = 0; i < of.count; ++i) out += of.values[i];
  return out;
}
void add(const Numbers& to) {
  for (std::uint64_t i = 0; i < to.count; ++i) to.values[i] += to.argument;
}
// Adds one, waits for `argument` milliseconds, and takes it away again, and adds two.
void add_slowly(const Numbers& to) {
  for (std::uint64_t i = 0; i < to.count; ++i) ++to.values[i];
  for (const std::uint64_t end = now_ms() + to.argument; now_ms() < end;) {
  }
  for (std::uint64_t i = 0; i < to.count; ++i) ++to.values[i];
}
std::uint64_t walk(ListNode* const& list) {
  std::uint64_t out = 0;
  for (const ListNode* node = list; node != nullptr; node = node->next) out = out * 31 + node->value;
  return out;
}
// With memory of its own.
std::uint64_t sum_of_copy(const Numbers& of) {
  const std::vector<std::uint64_t> copy(of.values, of.values + of.count);
  std::uint64_t out = 0;
  for (const std::uint64_t value : copy) out += value;
  return out;
}
std::uint64_t calls_before(const int&) {
  static std::uint64_t calls = 0;
  return calls++;
}
std::uint64_t process(const int&) { return static_cast<std::uint64_t>(::getpid()); }
void letters(const std::uint64_t& count, Output& out) {
  for (std::uint64_t i = 0; i < count; ++i) out.put('y');
}

// ---------------------------------------------------------------- bad

void crash(const int&) {
  int* nowhere = nullptr;
  asm volatile("" : "+r"(nowhere));  // Or the compiler sees that this cannot be meant.
  *nowhere = 1;
}
void give_up(const int&) { std::abort(); }
void leave(const int&) { ::_exit(0); }
void loop(const int&) {
  for (std::uint64_t i = 0;; ++i) asm volatile("" : "+r"(i));
}
std::uint64_t hog(const std::uint64_t& bytes) {
  std::vector<std::unique_ptr<char[]>> all;
  for (std::uint64_t got = 0; got < bytes; got += 1 << 20) {
    all.push_back(std::make_unique<char[]>(1 << 20));
    all.back()[0] = 1;
  }
  return all.size();
}
std::uint64_t peek(const std::uint64_t& address) {
  return *reinterpret_cast<const volatile std::uint64_t*>(address);
}
void fail_with(const std::int64_t& code) { throw yonder::offload::Failure{.code = code}; }
void throw_something(const int&) { throw std::runtime_error("no reason"); }

// ---------------------------------------------------------------- forbidden

void open_file(const int&) { (void)::open("/etc/hostname", O_RDONLY | O_CLOEXEC); }
void open_socket(const int&) { (void)::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); }
void start_process(const int&) { (void)::fork(); }
void run_program(const int&) { (void)::execl("/bin/true", "true", nullptr); }
void signal_parent(const int&) { (void)::kill(1, SIGTERM); }
void map_code(const int&) {
  (void)::mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
// Says something to the host that is no answer.
void lie(const int&) {
  const std::uint64_t nonsense[3] = {12345, ~0ULL, 7};
  (void)!::write(0, nonsense, sizeof nonsense);
}

}  // namespace

YONDER_OFFLOAD_FUNCTION(sum, 3);
YONDER_OFFLOAD_FUNCTION(add, 1);
YONDER_OFFLOAD_FUNCTION(add_slowly, 1);
YONDER_OFFLOAD_FUNCTION(walk, 1);
YONDER_OFFLOAD_FUNCTION(sum_of_copy, 1);
YONDER_OFFLOAD_FUNCTION(calls_before, 1);
YONDER_OFFLOAD_FUNCTION(process, 1);
YONDER_OFFLOAD_FUNCTION(letters, 1);
YONDER_OFFLOAD_FUNCTION(crash, 1);
YONDER_OFFLOAD_FUNCTION(give_up, 1);
YONDER_OFFLOAD_FUNCTION(leave, 1);
YONDER_OFFLOAD_FUNCTION(loop, 1);
YONDER_OFFLOAD_FUNCTION(hog, 1);
YONDER_OFFLOAD_FUNCTION(peek, 1);
YONDER_OFFLOAD_FUNCTION(fail_with, 1);
YONDER_OFFLOAD_FUNCTION(throw_something, 1);
YONDER_OFFLOAD_FUNCTION(open_file, 1);
YONDER_OFFLOAD_FUNCTION(open_socket, 1);
YONDER_OFFLOAD_FUNCTION(start_process, 1);
YONDER_OFFLOAD_FUNCTION(run_program, 1);
YONDER_OFFLOAD_FUNCTION(signal_parent, 1);
YONDER_OFFLOAD_FUNCTION(map_code, 1);
YONDER_OFFLOAD_FUNCTION(lie, 1);
