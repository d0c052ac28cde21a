// A program that knows nothing of far memory: threads that fill containers, wait for each
// other, hand objects over, and check every one; and a child that checks what it inherited.
//
//   far_program MEGABYTES     says "ok" and ends with 0, or says what was wrong
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

constexpr int kThreads = 3;

[[noreturn]] void wrong(const char* what) {
  std::printf("wrong: %s\n", what);
  std::fflush(stdout);
  std::_Exit(1);
}

std::string text_of(std::uint64_t number) {
  return std::to_string(number) + std::string(900 + number % 200, 'x');
}

// A condition variable inside an object of the heap, as programs have them.
struct Turn {
  std::mutex mutex;
  std::condition_variable changed;
  int whose = 0;
};

using Table = std::unordered_map<std::uint64_t, std::string>;

void fill_in_turns(Turn& turn, int me, Table& table, std::uint64_t entries) {
  for (std::uint64_t i = 0; i < entries; ++i) {
    table[i * kThreads + static_cast<std::uint64_t>(me)] = text_of(i);
    if (i % 256 != 0) continue;
    std::unique_lock lock(turn.mutex);
    turn.changed.wait(lock, [&] { return turn.whose == me; });
    turn.whose = (me + 1) % kThreads;
    turn.changed.notify_all();
  }
}

void check(const Table& table, int me, std::uint64_t entries) {
  if (table.size() != entries) wrong("size of a table");
  for (std::uint64_t i = 0; i < entries; ++i) {
    const auto found = table.find(i * kThreads + static_cast<std::uint64_t>(me));
    if (found == table.end() || found->second != text_of(i)) wrong("an entry of a table");
  }
}

void check_mapping() {
  constexpr std::size_t kBytes = 8 << 20;
  void* memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) wrong("mmap");
  auto* bytes = static_cast<unsigned char*>(memory);
  for (std::size_t i = 0; i < kBytes; i += 512) bytes[i] = static_cast<unsigned char>(i / 512);
  bytes = static_cast<unsigned char*>(::mremap(memory, kBytes, 2 * kBytes, MREMAP_MAYMOVE));
  for (std::size_t i = 0; i < kBytes; i += 512) {
    if (bytes[i] != static_cast<unsigned char>(i / 512)) wrong("a mapping that was moved");
  }
  if (::madvise(bytes, kBytes, MADV_DONTNEED) != 0 || bytes[512] != 0) wrong("madvise");
  if (::munmap(bytes, 2 * kBytes) != 0) wrong("munmap");
}

}  // namespace

int main(int, char** argv) {
  const std::uint64_t entries = std::strtoull(argv[1], nullptr, 10) * 1024 / kThreads;
  const auto turn = std::make_unique<Turn>();
  std::vector<Table> tables(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] { fill_in_turns(*turn, t, tables[static_cast<std::size_t>(t)], entries); });
  }
  for (std::thread& thread : threads) thread.join();
  const pid_t child = ::fork();
  if (child == 0) {
    for (int t = 0; t < kThreads; ++t) check(tables[static_cast<std::size_t>(t)], t, entries);
    std::_Exit(0);
  }
  // Meanwhile everything changes here, twice: the child must not see it.
  for (int round = 0; round < 2; ++round) {
    for (Table& table : tables) {
      for (auto& [key, text] : table) std::memset(text.data(), 'y' + round, text.size());
    }
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child || status != 0) wrong("the child");
  for (Table& table : tables) {
    for (auto& [key, text] : table) {
      if (text.find_first_not_of('z') != std::string::npos)
        wrong("what the parent wrote while the child lived");
    }
  }
  check_mapping();
  if (std::system("exit 7") != 7 << 8) wrong("system");
  std::puts("ok");
  return 0;
}
