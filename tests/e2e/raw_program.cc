// A program that talks to the kernel without the C library's functions: by syscall(2), as
// runtimes of other languages do, and by the instruction itself, as liburing does.
//
//   raw_program MEGABYTES     says "ok" and ends with 0, or says what was wrong
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr std::size_t kBlock = 300'000;  // Its pages are not its neighbours'.

[[noreturn]] void wrong(const char* what) {
  std::printf("wrong: %s (%s)\n", what, std::strerror(errno));
  std::fflush(stdout);
  std::_Exit(1);
}

using Block = std::vector<std::uint32_t>;

Block block_of(std::uint32_t number) {
  Block block(kBlock / sizeof(std::uint32_t));
  for (std::size_t i = 0; i < block.size(); ++i) block[i] = number * 77'777 + static_cast<std::uint32_t>(i);
  return block;
}

// What was used long ago is not resident.
void check_transfers(const std::vector<Block>& blocks) {
  const int file = static_cast<int>(::syscall(SYS_memfd_create, "raw", 0));
  if (file < 0) wrong("memfd_create");
  for (const Block& block : blocks) {
    if (::syscall(SYS_write, file, block.data(), kBlock) != static_cast<long>(kBlock)) wrong("write");
  }
  Block back(kBlock / sizeof(std::uint32_t));
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const long offset = static_cast<long>(i * kBlock);
    if (::syscall(SYS_pread64, file, back.data(), kBlock, offset) != static_cast<long>(kBlock))
      wrong("pread64");
    if (back != blocks[i]) wrong("what was read");
  }
  ::close(file);
}

// A word that has another value than the caller believes: EAGAIN, if the kernel can read it.
void check_futexes(std::vector<Block>& blocks) {
  for (Block& block : blocks) {
    const std::uint32_t other = ~0U;
    if (::syscall(SYS_futex, block.data() + block.size() / 2, FUTEX_WAIT_PRIVATE, other, nullptr, nullptr,
                  0) != -1 ||
        errno != EAGAIN)
      wrong("futex");
  }
}

// Calls of which nobody before the kernel knows what they are given.
void check_structures(std::vector<Block>& blocks) {
  for (Block& block : blocks) {
    auto* const name = reinterpret_cast<utsname*>(block.data() + 20'000);
    if (::syscall(SYS_uname, name) != 0 || std::strcmp(name->sysname, "Linux") != 0) wrong("uname");
    auto* const now = reinterpret_cast<timespec*>(block.data() + 40'000);
    if (::syscall(SYS_clock_gettime, CLOCK_MONOTONIC, now) != 0) wrong("clock_gettime");
  }
}

void check_mapping() {
  constexpr std::size_t kBytes = 4 << 20;
  void* const memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) wrong("mmap");
  std::memset(memory, 7, kBytes);
  if (::syscall(SYS_madvise, memory, kBytes, MADV_DONTNEED) != 0) wrong("madvise");
  if (static_cast<unsigned char*>(memory)[kBytes / 2] != 0) wrong("what madvise has left");
  if (::syscall(SYS_munmap, memory, kBytes) != 0) wrong("munmap");
}

#if defined(__x86_64__)
// As liburing does: no function that somebody could stand before.
long instruction(long number, long first, long second) {
  long result = 0;
  __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(first), "S"(second) : "rcx", "r11", "memory");
  return result;
}

void check_refusals() {
  alignas(64) std::uint64_t parameters[32] = {};
  const long ring = instruction(SYS_io_uring_setup, 8, reinterpret_cast<long>(parameters));
  if (ring != -ENOSYS) wrong("io_uring is there");
  unsigned long context = 0;
  if (instruction(SYS_io_setup, 8, reinterpret_cast<long>(&context)) != -ENOSYS) wrong("AIO is there");
}
#else
void check_refusals() {}
#endif

}  // namespace

int main(int, char** argv) {
  const std::size_t count = std::strtoull(argv[1], nullptr, 10) * 1'000'000 / kBlock;
  std::vector<Block> blocks;
  for (std::uint32_t i = 0; i < count; ++i) blocks.push_back(block_of(i));
  check_transfers(blocks);
  check_futexes(blocks);
  check_structures(blocks);
  check_mapping();
  check_refusals();
  std::puts("ok");
  return 0;
}
